// From accumulators to A and B, with the type changed or kept, and transposed. 0: input; 1: A; 2: B; 3: the transpose as B.
// spec constants: 1 rows, 2 columns
//: use.f16           -DX=float16_t -DY=float16_t -DTRANSPOSE
//: use.f32-f16       -DX=float -DY=float16_t
//: use.f32-bf16      -DX=float -DY=bfloat16_t
//: use.s32-s8        -DX=int -DY=int8_t
//: use.u32-u8        -DX=uint -DY=uint8_t
//: use.f16.workgroup     -DX=float16_t -DY=float16_t -DTRANSPOSE -DSCOPE=gl_ScopeWorkgroup
//: use.f32-f16.workgroup -DX=float -DY=float16_t -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 32;
layout(constant_id = 2) const uint C = 32;
layout(binding = 0) readonly buffer I { X i[]; };
layout(binding = 1) buffer O1 { Y o1[]; };
layout(binding = 2) buffer O2 { Y o2[]; };
#ifdef TRANSPOSE
layout(binding = 3) buffer O3 { X o3[]; };
#endif
void main()
{
    MAT(X, R, C, ACC) x;
    coopMatLoad(x, i, 0, C, ROW);
    MAT(Y, R, C, A) a = MAT(Y, R, C, A)(x);
    coopMatStore(a, o1, 0, C, ROW);
    MAT(Y, R, C, B) b = MAT(Y, R, C, B)(x);
    coopMatStore(b, o2, 0, C, ROW);
#ifdef TRANSPOSE
    MAT(X, C, R, B) t;
    coopMatTransposeNV(t, x);
    coopMatStore(t, o3, 0, R, ROW);
#endif
}
