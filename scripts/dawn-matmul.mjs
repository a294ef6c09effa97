// Dawn's subgroup matrices on Vulkan, compared with products computed here.
//
//     node dawn-matmul.mjs PACKAGE [TEXT]
//
// PACKAGE is the folder of the npm package `webgpu`. Every configuration of subgroup matrices that Dawn's adapter lists, or those
// whose names contain TEXT, multiplies matrices of 2 x 3 x 4 tiles; numbers are such that every sum is exact. Prints a line for
// each and a count. The exit status is 1 if one is wrong or none is listed.

import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const [folder, only = ''] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(join(folder, 'index.js')));
Object.assign(globalThis, globals);

const EXTENSION = 'chromium-experimental-subgroup-matrix';
const TILES = { m: 2, n: 3, k: 4 };

// ---------------------------------------------------------------------------- numbers

// Numbers as multiples of a unit: all of them, their products and the sums are exact in every type.
function f16Bits(value) {
  if (value === 0) return 0;
  const sign = value < 0 ? 0x8000 : 0;
  const size = Math.abs(value);
  const exponent = Math.floor(Math.log2(size));
  return sign | ((exponent + 15) << 10) | Math.round((size / 2 ** exponent - 1) * 1024);
}

function f16Value(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const size = exponent === 31 ? NaN : exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}

const encode = {
  f16: (values) => Uint16Array.from(values, f16Bits),
  f32: (values) => Float32Array.from(values),
  i8: (values) => Int8Array.from(values),
  u8: (values) => Uint8Array.from(values),
};
const decode = {
  f16: (buffer) => Array.from(new Uint16Array(buffer), f16Value),
  f32: (buffer) => Array.from(new Float32Array(buffer)),
  i32: (buffer) => Array.from(new Int32Array(buffer)),
  u32: (buffer) => Array.from(new Uint32Array(buffer)),
};
const bytes = { f16: 2, f32: 4, i32: 4, u32: 4, i8: 1, u8: 1 };

// Of a fixed sequence, so that runs can be compared.
function numbers(count, kind, seed) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const number = (state >>> 24) % 9;
    if (kind === 'u8') return number * 31;
    return kind === 'i8' ? (number - 4) * 31 : (number - 4) / 4;
  });
}

// ---------------------------------------------------------------------------- cases

function shader({ a, c, M, N, K }, subgroup) {
  // WGSL has no arrays of 8-bit numbers: four are in a word, and strides and offsets are in words.
  const packed = 4 / bytes[a] === 4 ? 4 : 1;
  const element = { i8: 'i32', u8: 'u32' }[a] ?? a;
  const [columns, depth] = [TILES.n * N, TILES.k * K];
  const f16 = a === 'f16' || c === 'f16' ? 'enable f16;' : '';
  return `
    enable chromium_experimental_subgroup_matrix;
    ${f16}
    @group(0) @binding(0) var<storage, read> left: array<${element}>;
    @group(0) @binding(1) var<storage, read> right: array<${element}>;
    @group(0) @binding(2) var<storage, read_write> result: array<${c}>;

    @compute @workgroup_size(${subgroup})
    fn main(@builtin(workgroup_id) tile: vec3u) {
      let row = tile.y * ${M};
      let column = tile.x * ${N};
      var sum = subgroup_matrix_result<${c}, ${N}, ${M}>();
      for (var k = 0u; k < ${depth}; k += ${K}) {
        let a = subgroupMatrixLoad<subgroup_matrix_left<${a}, ${K}, ${M}>, row_major>(
          &left, (row * ${depth} + k) / ${packed}, ${depth / packed});
        let b = subgroupMatrixLoad<subgroup_matrix_right<${a}, ${N}, ${K}>, row_major>(
          &right, (k * ${columns} + column) / ${packed}, ${columns / packed});
        sum = subgroupMatrixMultiplyAccumulate(a, b, sum);
      }
      subgroupMatrixStore<row_major>(&result, row * ${columns} + column, sum, ${columns});
    }`;
}

async function run(device, config, subgroup) {
  const { a, c, M, N, K } = config;
  const [rows, columns, depth] = [TILES.m * M, TILES.n * N, TILES.k * K];
  const left = numbers(rows * depth, a, 1);
  const right = numbers(depth * columns, a, 2);
  const buffer = (size, usage) => device.createBuffer({ size, usage });
  const inputs = [left, right].map((values) => {
    const data = encode[a](values);
    const input = buffer(data.byteLength, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST);
    device.queue.writeBuffer(input, 0, data);
    return input;
  });
  const size = rows * columns * bytes[c];
  const output = buffer(size, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
  const readable = buffer(size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  const module = device.createShaderModule({ code: shader(config, subgroup) });
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  const entries = [...inputs, output].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const commands = device.createCommandEncoder();
  const pass = commands.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(TILES.n, TILES.m);
  pass.end();
  commands.copyBufferToBuffer(output, 0, readable, 0, size);
  device.queue.submit([commands.finish()]);
  await readable.mapAsync(GPUMapMode.READ);
  const got = decode[c](readable.getMappedRange().slice(0));
  let differ = 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let k = 0; k < depth; k++) sum += left[row * depth + k] * right[k * columns + column];
      if (got[row * columns + column] !== sum) differ++;
    }
  }
  return differ ? `wrong (${differ} of ${got.length} elements)` : 'right';
}

// ---------------------------------------------------------------------------- main

const gpu = create(['backend=vulkan', 'enable-dawn-features=allow_unsafe_apis']);
const adapter = await gpu.requestAdapter();
if (!adapter) {
  console.log('unsupported: Dawn takes no device of this driver');
  process.exit(1);
}
const { description, subgroupMaxSize, subgroupMatrixConfigs } = adapter.info;
console.log(`device: ${description}`);
if (!adapter.features.has(EXTENSION)) {
  console.log(`unsupported: the adapter has no ${EXTENSION}`);
  process.exit(1);
}
const requiredFeatures = [EXTENSION, 'subgroups', 'shader-f16'].filter((feature) => adapter.features.has(feature));
const device = await adapter.requestDevice({ requiredFeatures });
const tally = { right: 0, wrong: 0, refused: 0 };
for (const { componentType: a, resultComponentType: c, M, N, K } of subgroupMatrixConfigs) {
  const name = `${a} to ${c} ${M}x${N}x${K}`;
  if (!name.includes(only)) continue;
  let verdict;
  device.pushErrorScope('validation');
  try {
    verdict = await run(device, { a, c, M, N, K }, subgroupMaxSize);
  } catch (error) {
    verdict = `refused (${String(error.message).split('\n')[0]})`;
  }
  const error = await device.popErrorScope();
  if (error) verdict = `refused (${error.message.split('\n')[0]})`;
  tally[verdict.split(' ')[0]]++;
  console.log(`${name}: ${verdict}`);
}
console.log(JSON.stringify(tally));
// Without destructors: Dawn may outlive its driver.
process.exit(tally.wrong || tally.refused || !tally.right ? 1 : 0);
