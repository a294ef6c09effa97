// Makes one file of the page: build.mjs MODULE.wasm REPOSITORY OUT.html, with the packages of NODE_PATH.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const [wasm, repository, out] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));

/** The modules to choose from; the first is shown at the start. */
const EXAMPLES = [
  ["A product whose K differs", "testdata/validate/muladd/muladd-k-mismatch.spvasm"],
  ["Matrices in divergent control flow", "testdata/validate/uniformity/uniformity-flow.spvasm"],
  ["A race through shared memory", "testdata/validate/uniformity/uniformity-assumed.shared-race.spvasm"],
  ["A product of tiles, from GLSL", "testdata/kernels/gemm_simple.spv"],
  ["A product with tensor addressing (NV2)", "testdata/nv2/product.f16.spv"],
  ["A product of 8-bit integers", "testdata/kernels/gemm_i8.spv"],
];

async function bundle(name) {
  const options = { entryPoints: [join(here, name)], bundle: true, minify: true, write: false, format: "iife", target: "es2022", charset: "utf8", legalComments: "inline" };
  const { outputFiles } = await build(options);
  // Nothing in a script may end it.
  return outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

const examples = EXAMPLES.map(([title, path]) => ({
  title, name: basename(path), file: readFileSync(join(repository, path)).toString("base64"),
}));
const parts = {
  "/*STYLE*/": readFileSync(join(here, "page.css"), "utf8"),
  "<!--WASM-->": gzipSync(readFileSync(wasm), { level: 9 }).toString("base64"),
  "/*EXAMPLES*/": JSON.stringify(examples),
  "/*WORKER*/": await bundle("worker.js"),
  "/*PAGE*/": await bundle("page.js"),
};
let page = readFileSync(join(here, "index.html"), "utf8");
for (const [mark, text] of Object.entries(parts)) {
  if (page.split(mark).length !== 2) throw new Error(`index.html has not one ${mark}`);
  page = page.replace(mark, () => text);
}
writeFileSync(out, page);
console.log(`${out}: ${page.length} bytes, of which ${parts["<!--WASM-->"].length} are the checker`);
