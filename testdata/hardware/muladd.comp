// D = A * B + C over STEPS steps in K; E = C, which lives on. Rows are PAD elements longer than the matrices.
// 0: A, 1: B, 2: C, 3: D, 4: E. spec constants: 1 M, 2 N, 3 K, 4 STEPS, 5 to 7 layouts of A, B, C and D, 8 stride of C: 0 reads one row
//: muladd.f16     -DTA=float16_t -DTB=float16_t -DTC=float16_t
//: muladd.f16-f32 -DTA=float16_t -DTB=float16_t -DTC=float
//: muladd.bf16    -DTA=bfloat16_t -DTB=bfloat16_t -DTC=float
//: muladd.s8      -DTA=int8_t -DTB=int8_t -DTC=int
//: muladd.u8      -DTA=uint8_t -DTB=uint8_t -DTC=uint
//: muladd.u8-s8   -DTA=uint8_t -DTB=int8_t -DTC=int
//: muladd.f16.workgroup     -DTA=float16_t -DTB=float16_t -DTC=float16_t -DSCOPE=gl_ScopeWorkgroup
//: muladd.f16-f32.workgroup -DTA=float16_t -DTB=float16_t -DTC=float -DSCOPE=gl_ScopeWorkgroup
//: muladd.bf16.workgroup    -DTA=bfloat16_t -DTB=bfloat16_t -DTC=float -DSCOPE=gl_ScopeWorkgroup
//: muladd.s8.workgroup      -DTA=int8_t -DTB=int8_t -DTC=int -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;
layout(constant_id = 4) const uint STEPS = 1;
layout(constant_id = 5) const int LA = 0;
layout(constant_id = 6) const int LB = 0;
layout(constant_id = 7) const int LC = 0;
layout(constant_id = 8) const uint SC = 1;
const uint PAD = 16;
layout(binding = 0) readonly buffer BA { TA a[]; };
layout(binding = 1) readonly buffer BB { TB b[]; };
layout(binding = 2) readonly buffer BC { TC c[]; };
layout(binding = 3) buffer BD { TC d[]; };
layout(binding = 4) buffer BE { TC e[]; };
void main()
{
    const uint sa = (LA == 0 ? K * STEPS : M) + PAD;
    const uint sb = (LB == 0 ? N : K * STEPS) + PAD;
    const uint sc = (LC == 0 ? N : M) + PAD;
    MAT(TC, M, N, ACC) mc;
    coopMatLoad(mc, c, 0, sc * SC, LC);
    MAT(TC, M, N, ACC) acc = mc;
    for (uint k = 0; k < STEPS; ++k) {
        MAT(TA, M, K, A) ma;
        MAT(TB, K, N, B) mb;
        coopMatLoad(ma, a, k * K * (LA == 0 ? 1 : sa), sa, LA);
        coopMatLoad(mb, b, k * K * (LB == 0 ? sb : 1), sb, LB);
        acc = coopMatMulAdd(ma, mb, acc);
    }
    coopMatStore(acc, d, 0, sc, LC);
    coopMatStore(mc, e, 0, sc, LC);
}
