// Blocks decoded while they are loaded. 0: the blocks, u32; 1: f16, the matrix, row-major.
// spec constants: 1 rows, 2 columns, 3 rows of the tensor, 4 and 5 first row and column, 6 clamp mode
//   WAY 1: 32 numbers of 4 bits with a scale of f16 and padding, a row of them after the other
//   WAY 2: blocks of 4 x 4 numbers of 8 bits
//   WAY 3: no function: one number to a block
//   WAY 4: 8 numbers of 4 bits in a word, with a table in shared memory
//: decode.q4           -DWAY=1
//: decode.square       -DWAY=2
//: decode.none         -DWAY=3
//: decode.table        -DWAY=4
//: decode.q4.workgroup -DWAY=1 -DSCOPE=gl_ScopeWorkgroup
//: decode.vector       -DWAY=1 -DVECTOR
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#ifdef VECTOR
#extension GL_NV_cooperative_matrix_decode_vector : require
#endif
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 64;
layout(constant_id = 3) const uint H = 16;
layout(constant_id = 4) const int Y = 0;
layout(constant_id = 5) const int X = 0;
layout(constant_id = 6) const uint MODE = 1;
layout(binding = 1) buffer O { float16_t o[]; };
#if WAY == 1
struct Block { float16_t scale; uint16_t pad; uint nibbles[4]; };
#define BLOCK 1, 32
#elif WAY == 2
struct Block { uint rows[4]; };
#define BLOCK 4, 4
#elif WAY == 3
#define Block float16_t
#define BLOCK 2, 8
#else
struct Block { uint nibbles; };
#define BLOCK 1, 8
shared float16_t table[16];
#endif
layout(binding = 0) readonly buffer I { Block i[]; };
#if WAY != 3
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ref { Block b; };
#endif
#if WAY == 1
float16_t decode(const in Ref r, const in uint at[2], const in uint within[2])
{
    const uint k = within[1];
    return r.b.scale * float16_t(int(r.b.nibbles[k / 8] >> (4 * (k % 8)) & 15) - 8);
}
#elif WAY == 2
float16_t decode(const in Ref r, const in uint at[2], const in uint within[2])
{
    return float16_t(r.b.rows[within[0]] >> (8 * within[1]) & 255) + float16_t((at[0] + at[1] & 1) * 512);
}
#elif WAY == 4
float16_t decode(const in Ref r, const in uint at[2], const in uint within[2])
{
    return table[r.b.nibbles >> (4 * within[1]) & 15];
}
#endif
#ifdef VECTOR
f16vec4 four(const in Ref r, const in uint at[2], const in uint within[2])
{
    const uint k = within[1];
    const uint bits = r.b.nibbles[k / 8] >> (4 * (k % 8));
    return r.b.scale * f16vec4(ivec4(bits & 15, bits >> 4 & 15, bits >> 8 & 15, bits >> 12 & 15) - 8);
}
#endif
void main()
{
#if WAY == 4
    for (uint k = gl_LocalInvocationIndex; k < 16; k += THREADS) {
        table[k] = float16_t(k * k) - float16_t(31);
    }
    barrier();
#endif
    tensorLayoutNV<2, MODE> t = createTensorLayoutNV(2, MODE);
    t = setTensorLayoutBlockSizeNV(t, BLOCK);
    t = setTensorLayoutDimensionNV(t, H, 64);
    t = setTensorLayoutClampValueNV(t, 0x4880);
    t = sliceTensorLayoutNV(t, Y, R, X, C);
    MAT(float16_t, R, C, A) m = MAT(float16_t, R, C, A)(float16_t(0));
#if WAY == 3
    coopMatLoadTensorNV(m, i, 0, t);
#elif defined(VECTOR)
    coopMatLoadTensorNV(m, i, 0, t, decode, four);
#else
    coopMatLoadTensorNV(m, i, 0, t, decode);
#endif
    coopMatStore(m, o, 0, C, ROW);
}
