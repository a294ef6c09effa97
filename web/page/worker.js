// Runs the WebAssembly module. An instance that trapped, or that grew large, is not used again: the next request gets a new one.

/** Bytes of memory from which on an instance is given up. */
const LARGE = 512 * 1024 * 1024;

let module;
let instance;

function bytes(pointer, length) {
  return new Uint8Array(instance.exports.memory.buffer, pointer >>> 0, length >>> 0);
}

function text(pointer, length) {
  return new TextDecoder().decode(bytes(pointer, length));
}

/** Answers one request about a file, both as bytes. */
function answer(request, file) {
  instance ??= new WebAssembly.Instance(module, {});
  const coop = instance.exports;
  const json = new TextEncoder().encode(JSON.stringify(request));
  const start = coop.coop_alloc(json.length + file.length);
  const room = bytes(start, json.length + file.length);
  room.set(json);
  room.set(file, json.length);
  const before = performance.now();
  coop.coop_answer(json.length);
  const milliseconds = performance.now() - before;
  const result = JSON.parse(text(coop.coop_json(), coop.coop_json_len()));
  const spirv = bytes(coop.coop_spirv(), coop.coop_spirv_len()).slice();
  if (coop.memory.buffer.byteLength > LARGE) instance = undefined;
  return { result, spirv, milliseconds };
}

/** Says why an instance trapped, as far as it can still tell. */
function reason(error) {
  let said = "";
  try {
    said = text(instance.exports.coop_panic(), instance.exports.coop_panic_len());
  } catch {
    // Its memory is gone too.
  }
  const memory = instance?.exports.memory.buffer.byteLength ?? 0;
  if (!said && memory > LARGE) said = "the module needs more memory than a page has";
  return said || String(error);
}

self.onmessage = ({ data }) => {
  if (data.wasm) {
    module = new WebAssembly.Module(data.wasm);
    return;
  }
  const { id, request, file } = data;
  try {
    self.postMessage({ id, ...answer(request, file) });
  } catch (error) {
    const trapped = reason(error);
    instance = undefined;
    self.postMessage({ id, trapped });
  }
};
