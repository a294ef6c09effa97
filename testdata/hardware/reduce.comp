// Reductions with sizes changed and kept. 0: M x N. Outputs, row-major: 1 rows (M x N2), 2 columns (M2 x N), 3 both
// (M2 x N2), 4 of 2 x 2 (M/2 x N/2). spec constants: 1 M, 2 N, 3 M2, 4 N2, 5 what: 0 sum, 1 least, 2 greatest
//: reduce.f32           -DT=float
//: reduce.f16           -DT=float16_t
//: reduce.f32.workgroup -DT=float -DSCOPE=gl_ScopeWorkgroup
//: reduce.f16.workgroup -DT=float16_t -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint M2 = 16;
layout(constant_id = 4) const uint N2 = 16;
layout(constant_id = 5) const uint WHAT = 0;
const uint MH = M / 2;
const uint NH = N / 2;
layout(binding = 0) readonly buffer I { T i[]; };
layout(binding = 1) buffer O1 { T o1[]; };
layout(binding = 2) buffer O2 { T o2[]; };
layout(binding = 3) buffer O3 { T o3[]; };
layout(binding = 4) buffer O4 { T o4[]; };
T combine(const in T x, const in T y)
{
    return WHAT == 0 ? x + y : WHAT == 1 ? min(x, y) : max(x, y);
}
void main()
{
    MAT(T, M, N, ACC) m;
    coopMatLoad(m, i, 0, N, ROW);
    MAT(T, M, N2, ACC) rows;
    coopMatReduceNV(rows, m, gl_CooperativeMatrixReduceRowNV, combine);
    coopMatStore(rows, o1, 0, N2, ROW);
    MAT(T, M2, N, ACC) columns;
    coopMatReduceNV(columns, m, gl_CooperativeMatrixReduceColumnNV, combine);
    coopMatStore(columns, o2, 0, N, ROW);
    MAT(T, M2, N2, ACC) both;
    coopMatReduceNV(both, m, gl_CooperativeMatrixReduceRowAndColumnNV, combine);
    coopMatStore(both, o3, 0, N2, ROW);
    MAT(T, MH, NH, ACC) quarter;
    coopMatReduceNV(quarter, m, gl_CooperativeMatrixReduce2x2NV, combine);
    coopMatStore(quarter, o4, 0, NH, ROW);
}
