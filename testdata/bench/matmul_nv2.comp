// D = A * B with workgroup-scope matrices and tensor layouts: VK_NV_cooperative_matrix2.
//
// A is M x K, row-major, in f16, bf16 or blocks; B is K x N with neighbours in k, D is M x N with neighbours in m.
// A workgroup makes one BM x BN tile of D. Where a tile hangs over an edge, loads fill up with zeros. Where none does and rows begin
// at multiples of 16 bytes, the code says so: `& ~7` changes nothing and lets a compiler load whole words.
//
// Macros: A_F16, A_BF16, A_Q4_0, A_Q8_0 or A_Q4_K; SUM is the type of the accumulator; VECTOR adds decode functions
// that make four elements at a time.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#ifdef VECTOR
#extension GL_NV_cooperative_matrix_decode_vector : require
#endif
#ifdef A_BF16
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#else
#define HALF float16_t
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BM = 128;
layout(constant_id = 2) const uint BN = 128;
layout(constant_id = 3) const uint BK = 32;

layout(push_constant) uniform Sizes {
    uint m, n, k;
    uint stride_a, stride_b, stride_d; // in elements
};

#include "blocks.glsl"

#if defined(A_Q4_0)
#define ELEMENT Q4_0
#define BLOCK 32
#define ALIGNMENT 2
#elif defined(A_Q8_0)
#define ELEMENT Q8_0
#define BLOCK 32
#define ALIGNMENT 2
#elif defined(A_Q4_K)
#define ELEMENT Q4_K
#define BLOCK 256
#define ALIGNMENT 16
#else
#define ELEMENT HALF
#define BLOCK 1
#endif

layout(set = 0, binding = 0) readonly buffer A { ELEMENT a[]; };
layout(set = 0, binding = 1) readonly buffer B { HALF b[]; };
layout(set = 0, binding = 2) writeonly buffer D { float d[]; };

#if BLOCK > 1
layout(buffer_reference, std430, buffer_reference_align = ALIGNMENT) readonly buffer Block { ELEMENT block; };

#if defined(A_Q4_0)
float16_t decode(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint i = inside[1];
    uint pair = uint(from.block.quants[(i & 15) >> 1]);
    uint quant = pair >> (8 * (i & 1) + (i >> 4) * 4) & 15;
    return from.block.scale * (float16_t(quant) - 8.0hf);
}
f16vec4 decode4(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint i = inside[1];
    uint j = (i & 15) >> 1;
    uint bytes = uint(from.block.quants[j]) | uint(from.block.quants[j + 1]) << 16;
    u8vec4 quants = unpack8(bytes >> (i >> 4) * 4 & 0x0f0f0f0f);
    return from.block.scale * (f16vec4(quants) - 8.0hf);
}
#elif defined(A_Q8_0)
float16_t decode(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint i = inside[1];
    int pair = int(from.block.quants[i >> 1]);
    return from.block.scale * float16_t(pair << 24 - 8 * (i & 1) >> 24);
}
f16vec4 decode4(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint j = inside[1] >> 1;
    int bytes = int(uint(from.block.quants[j]) | uint(from.block.quants[j + 1]) << 16);
    return from.block.scale * f16vec4(unpack8(bytes));
}
#elif defined(A_Q4_K)
// Scales and minima of the parts of two slices' rows, unpacked once for all who decode: while one slice is loaded, the next
// one's are made.
const uint PARTS = BK / 32;
shared f16vec2 parts[2][BM * PARTS];

void prepare(uint at) {
    for (uint i = gl_LocalInvocationIndex; i < BM * PARTS; i += gl_WorkGroupSize.x) {
        uint row = min(gl_WorkGroupID.x * BM + i / PARTS, m - 1);
        uint column = min(at + i % PARTS * 32, k - 1);
        uint from = row * (stride_a / BLOCK) + column / BLOCK;
        uvec3 packed = uvec3(a[from].packed[0], a[from].packed[1], a[from].packed[2]);
        parts[at / BK & 1][i] = q4_k_part(a[from].scales, packed, column / 32 & 7);
    }
    barrier();
}

f16vec2 part_of(const in uint at[2], const in uint inside[2]) {
    uint column = at[1] * BLOCK + inside[1];
    uint row = at[0] - gl_WorkGroupID.x * BM;
    return parts[column / BK & 1][row * PARTS + column % BK / 32];
}

float16_t decode(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint i = inside[1];
    f16vec2 part = part_of(at, inside);
    uint bytes = from.block.quants[(i >> 6) * 8 + ((i & 31) >> 2)];
    uint quant = bytes >> ((i & 3) * 8 + (i >> 5 & 1) * 4) & 15;
    return part.x * float16_t(quant) - part.y;
}
f16vec4 decode4(const in Block from, const in uint at[2], const in uint inside[2]) {
    uint i = inside[1];
    f16vec2 part = part_of(at, inside);
    uint bytes = from.block.quants[(i >> 6) * 8 + ((i & 31) >> 2)];
    u8vec4 quants = unpack8(bytes >> (i >> 5 & 1) * 4 & 0x0f0f0f0f);
    return part.x * f16vec4(quants) - part.y;
}
#endif

#ifdef VECTOR
#define DECODE , decode, decode4
#else
#define DECODE , decode
#endif
#else
#define DECODE
#endif

#if defined(A_Q4_K)
#define PREPARE(at) prepare(at);
#else
#define PREPARE(at)
#endif

// Slices in one go of the loop.
const uint UNROLL = 4;

#define SLICE(at)                                                                                                      \
    {                                                                                                                  \
        PREPARE(at)                                                                                                    \
        coopmat<HALF, gl_ScopeWorkgroup, BM, BK, gl_MatrixUseA> left;                                                  \
        coopmat<HALF, gl_ScopeWorkgroup, BK, BN, gl_MatrixUseB> right;                                                 \
        coopMatLoadTensorNV(left, a, 0, sliceTensorLayoutNV(of_a, row, BM, at, BK) DECODE);                            \
        coopMatLoadTensorNV(right, b, 0, sliceTensorLayoutNV(of_b, column, BN, at, BK), transposed);                   \
        sums = coopMatMulAdd(left, right, sums);                                                                       \
    }

void main() {
    uint row = gl_WorkGroupID.x * BM;
    uint column = gl_WorkGroupID.y * BN;
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    coopmat<SUM, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> sums =
        coopmat<SUM, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(0.0);

    bool aligned = (stride_b & 7) == 0 && (BLOCK > 1 || (stride_a & 7) == 0);
    if (aligned && row + BM <= m && column + BN <= n && k % BK == 0) {
        tensorLayoutNV<2> of_a = createTensorLayoutNV(2);
        tensorLayoutNV<2> of_b = createTensorLayoutNV(2);
#if BLOCK > 1
        of_a = setTensorLayoutBlockSizeNV(of_a, 1, BLOCK);
        of_a = setTensorLayoutDimensionNV(of_a, m, k);
        of_a = setTensorLayoutStrideNV(of_a, stride_a / BLOCK, 1);
#else
        of_a = setTensorLayoutDimensionNV(of_a, m, k);
        of_a = setTensorLayoutStrideNV(of_a, stride_a & ~7, 1);
#endif
        of_b = setTensorLayoutDimensionNV(of_b, n, k);
        of_b = setTensorLayoutStrideNV(of_b, stride_b & ~7, 1);
        uint at = 0;
        for (; at + UNROLL * BK <= k; at += UNROLL * BK) {
            [[unroll]] for (uint i = 0; i < UNROLL; i++) {
                SLICE(at + i * BK)
            }
        }
        for (; at < k; at += BK) {
            SLICE(at)
        }
    } else {
        tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> of_a =
            createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> of_b =
            createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
#if BLOCK > 1
        of_a = setTensorLayoutBlockSizeNV(of_a, 1, BLOCK);
#endif
        of_a = setTensorLayoutDimensionNV(of_a, m, k);
        of_a = setTensorLayoutStrideNV(of_a, stride_a / BLOCK, 1);
        of_b = setTensorLayoutDimensionNV(of_b, n, k);
        of_b = setTensorLayoutStrideNV(of_b, stride_b, 1);
        for (uint at = 0; at < k; at += BK) {
            SLICE(at)
        }
    }

    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> of_d =
        createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    of_d = setTensorLayoutDimensionNV(of_d, n, m);
    of_d = setTensorLayoutStrideNV(of_d, stride_d, 1);
    coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> result =
        coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(sums);
    coopMatStoreTensorNV(result, d, 0, sliceTensorLayoutNV(of_d, column, BN, row, BM), transposed);
}
