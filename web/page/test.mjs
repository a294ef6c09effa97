// Tests the page in Chromium: test.mjs PAGE.html REPOSITORY CHROMIUM LLAMA_FOLDER OUT_FOLDER
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [page, repository, program, llama, out] = process.argv.slice(2);

/** The most milliseconds that checking a module of llama.cpp takes in the page. */
const MOST = 100;

const testdata = (path) => readFileSync(join(repository, "testdata", path));

/** Each tab of results, after it has been filled again. */
async function after(tab, counter, action) {
  const count = await tab.evaluate((name) => Number(document.body.dataset[name] ?? 0), counter);
  await action();
  await tab.waitForFunction(([name, n]) => Number(document.body.dataset[name] ?? 0) > n, [counter, count], { timeout: 60_000 });
}

const checked = (tab, action) => after(tab, "checks", action);

/** Puts text in place of what the editor has, as the clipboard does. */
async function paste(tab, text) {
  await tab.click("#source .cm-content");
  await tab.keyboard.press("Control+a");
  await checked(tab, () => tab.evaluate((text) => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    document.querySelector("#source .cm-content").dispatchEvent(
      new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text));
}

/** Drops a file on the page. */
async function drop(tab, name, bytes) {
  await checked(tab, () => tab.evaluate(({ name, base64 }) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name));
    document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, { name, base64: Buffer.from(bytes).toString("base64") }));
}

/** The findings of the list: level, rule and line. */
const findings = (tab) => tab.$$eval(".finding", (all) => all.map((one) => [
  one.querySelector(".level").textContent, one.querySelector("code")?.textContent ?? "",
  Number(one.querySelector(".head .place")?.textContent.replace("line ", "") ?? 0),
]));

/** What the comments of a file in testdata/validate expect: behind each guilty instruction, level and rule. */
function expected(text) {
  const lines = text.split("\n");
  return lines.flatMap((line, i) => {
    const [, level, rule] = line.match(/^\s*; (error|warning|note): \[([\w-]+)\]/) ?? [];
    if (!rule) return [];
    let at = i - 1;
    while (/^\s*;/.test(lines[at])) at -= 1;
    return [[level, rule, at + 1]];
  });
}

const sorted = (all) => all.map((one) => one.join(" ")).sort();

async function pasted(tab) {
  const files = ["muladd/muladd-k-mismatch", "muladd/muladd-signed-disagrees", "uniformity/uniformity-flow", "uniformity/uniformity-operand.splat"];
  for (const name of files) {
    const text = testdata(`validate/${name}.spvasm`).toString();
    await paste(tab, text);
    const wanted = expected(text);
    assert.ok(wanted.length > 0, name);
    assert.deepEqual(sorted(await findings(tab)), sorted(wanted), name);
  }
  // The message stands under the line that it is about.
  const text = testdata("validate/muladd/muladd-k-mismatch.spvasm").toString();
  await paste(tab, text);
  const above = await tab.$eval("#source .said", (said) => said.previousElementSibling.textContent);
  assert.match(above, /%product = OpCooperativeMatrixMulAddKHR/);
  assert.match(await tab.textContent("#source .said"), /K of A \(16\) differs from K of B \(8\)/);
  // A finding's line leads there.
  await tab.click(".finding .head .place");
  assert.match(await tab.evaluate(() => String(getSelection())), /^%product = OpCooperativeMatrixMulAddKHR/);
  // Corrected by hand, it is gone.
  await paste(tab, text.replace("%half %uint_3 %uint_8 %uint_16", "%half %uint_3 %uint_16 %uint_16"));
  assert.deepEqual(await findings(tab), []);
  // Text that is none is marked where it stops to be some.
  await paste(tab, "; é\n%void = OpTypeVoid\n%x = OpTypeVoidd\n");
  assert.deepEqual(await findings(tab), [["error", "", 3]]);
  console.log(`pasted: ${files.length} modules have the findings that their comments expect`);
}

async function lowered(tab) {
  await drop(tab, "gemm.spv", testdata("kernels/gemm_simple.spv"));
  assert.deepEqual((await findings(tab)).filter(([level]) => level === "error"), []);
  assert.match(await tab.textContent("#name"), /gemm\.spv/);
  assert.match(await tab.textContent("#source"), /OpCapability CooperativeMatrixKHR/);
  await after(tab, "lowered", () => tab.click("#tab-lowered"));
  assert.match(await tab.textContent("#outcome"), /nvidia-h100 runs the module as it is/);
  await after(tab, "lowered", () => tab.selectOption("#target", "scalar"));
  assert.match(await tab.textContent("#outcome"), /Lowered to scalar/);
  assert.match(await tab.textContent("#output"), /OpMemoryModel/);
  const [saved] = await Promise.all([tab.waitForEvent("download"), tab.click("#outcome button")]);
  assert.equal(saved.suggestedFilename(), "gemm.scalar.spv");
  const file = join(out, "gemm.scalar.spv");
  await saved.saveAs(file);
  // Tools that are not ours read it, and find no matrix.
  execFileSync("spirv-val", ["--target-env", "vulkan1.3", file]);
  const text = execFileSync("spirv-dis", [file]).toString();
  assert.match(text, /OpFunction/);
  assert.doesNotMatch(text, /CooperativeMatrix/);
  // Constants of the pipeline.
  const before = await tab.textContent("#source");
  await checked(tab, () => tab.fill("#subgroup", "31"));
  assert.match(await tab.textContent("#findings"), /'31' is not a power of two/);
  await checked(tab, () => tab.fill("#subgroup", ""));
  await checked(tab, () => tab.fill("#constants input", "no number"));
  assert.match(await tab.textContent("#findings"), /'no number' is not a number/);
  await checked(tab, () => tab.fill("#constants input", ""));
  assert.equal(await tab.textContent("#source"), before);
  console.log(`lowered: gemm_simple.spv has no matrices any more, and spirv-val takes it`);
}

async function table(tab) {
  await after(tab, "tables", () => tab.click("#tab-devices"));
  const rows = await tab.$$eval("#rows tr", (all) => all.map((row) => [row.dataset.device, row.children[1].textContent, row.children[2].textContent]));
  const profiles = readdirSync(join(repository, "device/profiles")).map((name) => name.replace(".json", "")).sort();
  assert.deepEqual(rows.map(([name]) => name).sort(), profiles);
  const of = (name) => rows.find((row) => row[0] === name);
  assert.equal(of("nvidia-h100")[1], "as it is");
  assert.equal(of("mesa-lavapipe-debian12")[1], "lowered to scalar");
  assert.match(of("mesa-lavapipe-debian12")[2], /CooperativeMatrix/);
  await tab.screenshot({ path: join(out, "devices.png") });
  await tab.click("#tab-findings");
  console.log(`devices: ${rows.length} rows`);
}

/** Milliseconds until the findings of modules of llama.cpp are there. */
async function fast(tab) {
  const all = readdirSync(llama).filter((name) => /_cm[12]\.spv$/.test(name));
  const largest = all.map((name) => [readFileSync(join(llama, name)).length, name]).sort((a, b) => b[0] - a[0]);
  const chosen = [largest[0][1], ...["matmul_q4_k_f16_cm2.spv", "flash_attn_f32_f16_cm1.spv"].filter((name) => all.includes(name))];
  for (const name of chosen) {
    const bytes = readFileSync(join(llama, name));
    const times = [];
    for (let i = 0; i < 7; i++) {
      await drop(tab, name, bytes);
      times.push(await tab.evaluate(() => ({ check: Number(document.body.dataset.check), total: Number(document.body.dataset.total) })));
    }
    const facts = await tab.textContent("#facts");
    const sorted = (key) => times.map((t) => t[key]).sort((a, b) => a - b);
    const [least, median] = [0, 3].map((i) => (key) => sorted(key)[i]);
    console.log(`${name}: ${bytes.length} bytes, ${facts}: checked in ${times[0].check.toFixed(1)} ms at first, ${median("check").toFixed(1)} ms in the median; ${median("total").toFixed(1)} ms until the findings are in the text`);
    // Other programs of the machine are not the page's.
    assert.ok(least("total") < MOST, `${name}: ${least("total")} ms until the findings are there`);
  }
}

/** What breaks modules, and an instance that stops, leave the page working. */
async function hostile(tab) {
  const good = testdata("kernels/gemm_simple.spv");
  const broken = readdirSync(join(repository, "testdata/fuzz"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(spv|bin)$/.test(entry.name)).map((entry) => readFileSync(join(entry.parentPath ?? entry.path, entry.name)));
  for (const cut of [3, 4, 19, 20, 21, 400, 1001]) broken.push(good.subarray(0, cut));
  const bound = Buffer.from(good);
  bound.writeUInt32LE(0xffffffff, 12);
  broken.push(bound, Buffer.alloc(0), Buffer.from([0, 1, 2, 3]), Buffer.from("\u007fELF"));
  for (let seed = 1; seed < 40; seed++) {
    const copy = Buffer.from(good);
    for (let i = 0, n = seed; i < 8; i++) {
      n = (n * 1103515245 + 12345) >>> 0;
      copy[20 + (n >>> 8) % (copy.length - 20)] = n >>> 16;
    }
    broken.push(copy);
  }
  for (const bytes of broken) await drop(tab, "broken.spv", bytes);
  const works = async (why) => {
    await paste(tab, testdata("validate/muladd/muladd-k-mismatch.spvasm").toString());
    assert.deepEqual((await findings(tab)).map(([, rule]) => rule), ["muladd-k-mismatch"], why);
  };
  await works("after broken modules");
  // An instance that fails is not used again: here its memory can't be read once.
  assert.equal(tab.workers().length, 1);
  await tab.workers()[0].evaluate(() => {
    const { parse } = JSON;
    JSON.parse = () => {
      JSON.parse = parse;
      throw new WebAssembly.RuntimeError("unreachable");
    };
  });
  await drop(tab, "gemm.spv", good);
  assert.match(await tab.textContent("#findings"), /a bug of the checker.*unreachable/);
  await works("after a trap");
  console.log(`hostile: the page works after ${broken.length} broken modules and a trap`);
}

/** A worker that does not answer is ended, and another takes its place. */
async function hangs(context) {
  const tab = await context.newPage();
  await tab.clock.install();
  await tab.goto(String(pathToFileURL(page)));
  await tab.clock.runFor(1000);
  await tab.waitForFunction(() => document.body.dataset.checks > 0);
  await tab.workers()[0].evaluate(() => {
    self.onmessage = () => {
      for (;;);
    };
  });
  await checked(tab, async () => {
    await tab.selectOption("#example", "3");
    await tab.clock.runFor(31_000);
  });
  assert.match(await tab.textContent("#findings"), /no answer after 30 seconds/);
  await checked(tab, () => tab.selectOption("#example", "0"));
  assert.deepEqual((await findings(tab)).map(([, rule]) => rule), ["muladd-k-mismatch"]);
  await tab.close();
}

async function keys(tab) {
  await paste(tab, testdata("validate/muladd/muladd-k-mismatch.spvasm").toString());
  await tab.keyboard.press("F8");
  await tab.keyboard.press("Alt+2");
  assert.equal(await tab.getAttribute("#tab-lowered", "aria-selected"), "true");
  await tab.keyboard.press("ArrowLeft");
  assert.equal(await tab.getAttribute("#tab-findings", "aria-selected"), "true");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "tab-findings");
}

/** Pictures for people: light, dark and narrow. */
async function pictures(tab) {
  await drop(tab, "gemm_simple.spv", testdata("kernels/gemm_simple.spv"));
  await after(tab, "lowered", () => tab.click("#tab-lowered"));
  await tab.screenshot({ path: join(out, "lowered.png") });
  await tab.click("#tab-findings");
  await paste(tab, testdata("validate/uniformity/uniformity-flow.spvasm").toString());
  await tab.click(".finding .head .place");
  await tab.screenshot({ path: join(out, "light.png") });
  await tab.emulateMedia({ colorScheme: "dark" });
  await tab.screenshot({ path: join(out, "dark.png") });
  await tab.setViewportSize({ width: 560, height: 900 });
  await tab.screenshot({ path: join(out, "narrow.png") });
}

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const context = await browser.newContext({ viewport: { width: 1400, height: 860 }, offline: true, acceptDownloads: true });
  const tab = await context.newPage();
  const asked = [];
  const wrong = [];
  tab.on("request", (request) => asked.push(request.url()));
  tab.on("pageerror", (error) => wrong.push(String(error.stack ?? error)));
  tab.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  await tab.goto(String(pathToFileURL(page)));
  await tab.waitForFunction(() => document.body.dataset.ready != null && document.body.dataset.checks > 0, undefined, { timeout: 30_000 });
  console.log(`${await browser.version()}: ${await tab.textContent("#version")}, ${await tab.textContent("#status")}`);
  assert.deepEqual((await findings(tab)).map(([, rule]) => rule), ["muladd-k-mismatch"]);
  await pasted(tab);
  await lowered(tab);
  await table(tab);
  await fast(tab);
  await hostile(tab);
  await hangs(context);
  await keys(tab);
  await pictures(tab);
  assert.deepEqual(wrong, []);
  const outside = asked.filter((url) => !/^(file|data|blob):/.test(url));
  assert.deepEqual(outside, []);
  // Not even a script of the page's own could send anything.
  const sent = await tab.evaluate(() => fetch("https://example.org/").then(() => "sent", () => "refused"));
  assert.equal(sent, "refused");
  writeFileSync(join(out, "passed"), "");
  console.log("the page works");
} finally {
  await browser.close();
}
