// D = f32(A * B), accumulated in f16 from zero and widened at the end, one subgroup to an M x N tile.
//
// binding 0: A, f16, rows x inner, row-major        push constants: uint rows, cols, inner
// binding 1: B, f16, inner x cols, row-major
// binding 2: C, f16, rows x cols, row-major, written: the accumulator
// binding 3: D, f32, rows x cols, row-major, written: the same, converted
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) writeonly buffer BufferC { float16_t c[]; };
layout(set = 0, binding = 3) writeonly buffer BufferD { float d[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc =
        coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);

    for (uint k = 0; k < inner; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, row * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, b, k * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
        acc = coopMatMulAdd(tileA, tileB, acc);
    }

    coopMatStore(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(acc), d, row * cols + col, cols,
        gl_CooperativeMatrixLayoutRowMajor);
}
