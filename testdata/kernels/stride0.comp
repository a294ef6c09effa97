// D = A * B + column bias + row bias: each bias is a vector, spread over a matrix by loading it with stride 0.
//
// binding 0: A, f16, rows x inner, row-major        push constants: uint rows, cols, inner
// binding 1: B, f16, inner x cols, row-major
// binding 2: P, f32, cols values: P[j] is added to every element of column j
// binding 3: Q, f32, rows values: Q[i] is added to every element of row i
// binding 4: D, f32, rows x cols, row-major, written
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
layout(set = 0, binding = 2) readonly buffer BufferP { float p[]; };
layout(set = 0, binding = 3) readonly buffer BufferQ { float q[]; };
layout(set = 0, binding = 4) writeonly buffer BufferD { float d[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    // Every row starts at the same address, or every column does.
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc;
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> rowBias;
    coopMatLoad(acc, p, col, 0, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(rowBias, q, row, 0, gl_CooperativeMatrixLayoutColumnMajor);

    for (uint k = 0; k < inner; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, row * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, b, k * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
        acc = coopMatMulAdd(tileA, tileB, acc);
    }

    coopMatStore(acc + rowBias, d, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}
