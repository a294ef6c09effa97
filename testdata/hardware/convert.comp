// Conversions of whole matrices. 0: input, 1: converted, 2: converted and back. spec constants: 1 rows, 2 columns
//: convert.f16-f32  -DX=float16_t -DY=float -DU=ACC
//: convert.f32-f16  -DX=float -DY=float16_t -DU=ACC
//: convert.f32-s32  -DX=float -DY=int -DU=ACC
//: convert.f16-u32  -DX=float16_t -DY=uint -DU=ACC
//: convert.s32-f32  -DX=int -DY=float -DU=ACC
//: convert.u32-f16  -DX=uint -DY=float16_t -DU=ACC
//: convert.s32-u32  -DX=int -DY=uint -DU=ACC
//: convert.s8-f16   -DX=int8_t -DY=float16_t -DU=A
//: convert.u8-f16   -DX=uint8_t -DY=float16_t -DU=B
//: convert.f16-s8   -DX=float16_t -DY=int8_t -DU=A
//: convert.f16-u8   -DX=float16_t -DY=uint8_t -DU=B
//: convert.bf16-f16 -DX=bfloat16_t -DY=float16_t -DU=A
//: convert.f16-bf16 -DX=float16_t -DY=bfloat16_t -DU=B
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(binding = 0) readonly buffer I { X i[]; };
layout(binding = 1) buffer O1 { Y o1[]; };
layout(binding = 2) buffer O2 { X o2[]; };
void main()
{
    MAT(X, R, C, U) x;
    coopMatLoad(x, i, 0, C, ROW);
    MAT(Y, R, C, U) y = MAT(Y, R, C, U)(x);
    coopMatStore(y, o1, 0, C, ROW);
    x = MAT(X, R, C, U)(y);
    coopMatStore(x, o2, 0, C, ROW);
}
