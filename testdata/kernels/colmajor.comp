// D = A * B + C with A, B and C column-major; D's layout is a specialization constant.
//
// binding 0: A, f16, rows x inner, column-major     push constants: uint rows, cols, inner
// binding 1: B, f16, inner x cols, column-major
// binding 2: C, f32, rows x cols, column-major
// binding 3: D, f32, rows x cols, written: row-major when spec constant 4 is 0, column-major when it is 1
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size), 4 layout of D
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(constant_id = 4) const int LAYOUT_D = gl_CooperativeMatrixLayoutRowMajor;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) readonly buffer BufferC { float c[]; };
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

    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc;
    coopMatLoad(acc, c, col * rows + row, rows, gl_CooperativeMatrixLayoutColumnMajor);

    for (uint k = 0; k < inner; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, k * rows + row, rows, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(tileB, b, col * inner + k, inner, gl_CooperativeMatrixLayoutColumnMajor);
        acc = coopMatMulAdd(tileA, tileB, acc);
    }

    const bool byRow = LAYOUT_D == gl_CooperativeMatrixLayoutRowMajor;
    coopMatStore(acc, d, byRow ? row * cols + col : col * rows + row, byRow ? cols : rows, LAYOUT_D);
}
