// C = A * B + C in integers, one subgroup to an M x N tile of C.
// Built three times: s8 x s8 -> s32; -DUNSIGNED: u8 x u8 -> u32; -DSATURATE: s8 with saturating accumulation.
//
// binding 0: A, s8 or u8, rows x inner, row-major     push constants: uint rows, cols, inner
// binding 1: B, s8 or u8, inner x cols, row-major
// binding 2: C, s32 or u32, rows x cols, row-major, read and written
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require

#ifdef UNSIGNED
#define NARROW uint8_t
#define WIDE uint32_t
#else
#define NARROW int8_t
#define WIDE int32_t
#endif
#ifdef SATURATE
#define OPERANDS gl_MatrixOperandsSaturatingAccumulation
#else
#define OPERANDS 0
#endif

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { NARROW a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { NARROW b[]; };
layout(set = 0, binding = 2) buffer BufferC { WIDE c[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    coopmat<WIDE, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc;
    coopMatLoad(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);

    for (uint k = 0; k < inner; k += K) {
        coopmat<NARROW, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<NARROW, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, row * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, b, k * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
        acc = coopMatMulAdd(tileA, tileB, acc, OPERANDS);
    }

    coopMatStore(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}
