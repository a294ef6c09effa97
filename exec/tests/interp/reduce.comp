// Reductions. binding 0: f32 M x N. Outputs f32, row-major: 1 row sums (M x N2), 2 column maxima (M2 x N), 3 sum of all
// (M2 x N2), 4 sums of 2 x 2 (M/2 x N/2), 5 the first of each row (M x N2).
// spec constants: 0 M, 1 N, 2 M2, 3 N2, 4 invocations
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint M2 = 8;
layout(constant_id = 3) const uint N2 = 32;
const uint MH = M / 2;
const uint NH = N / 2;
layout(local_size_x_id = 4) in;
layout(binding = 0) readonly buffer I { float i0[]; };
layout(binding = 1) buffer O1 { float o1[]; };
layout(binding = 2) buffer O2 { float o2[]; };
layout(binding = 3) buffer O3 { float o3[]; };
layout(binding = 4) buffer O4 { float o4[]; };
layout(binding = 5) buffer O5 { float o5[]; };
float add(const in float a, const in float b) { return a + b; }
float maximum(const in float a, const in float b) { return max(a, b); }
float first(const in float a, const in float b) { return a; }
#ifndef SCOPE
#define SCOPE gl_ScopeSubgroup
#endif
void main()
{
    coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator> m;
    coopMatLoad(m, i0, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, SCOPE, M, N2, gl_MatrixUseAccumulator> rows;
    coopMatReduceNV(rows, m, gl_CooperativeMatrixReduceRowNV, add);
    coopMatStore(rows, o1, 0, N2, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, SCOPE, M2, N, gl_MatrixUseAccumulator> columns;
    coopMatReduceNV(columns, m, gl_CooperativeMatrixReduceColumnNV, maximum);
    coopMatStore(columns, o2, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, SCOPE, M2, N2, gl_MatrixUseAccumulator> all;
    coopMatReduceNV(all, m, gl_CooperativeMatrixReduceRowAndColumnNV, add);
    if (all[0] > -1000.0) {
        coopMatStore(all, o3, 0, N2, gl_CooperativeMatrixLayoutRowMajor);
    }
    coopmat<float, SCOPE, MH, NH, gl_MatrixUseAccumulator> quarter;
    coopMatReduceNV(quarter, m, gl_CooperativeMatrixReduce2x2NV, add);
    coopMatStore(quarter, o4, 0, NH, gl_CooperativeMatrixLayoutRowMajor);
    coopMatReduceNV(rows, m, gl_CooperativeMatrixReduceRowNV, first);
    coopMatStore(rows, o5, 0, N2, gl_CooperativeMatrixLayoutRowMajor);
}
