// Arithmetic of whole matrices, and with a scalar. 0, 1: inputs; 2: sum, difference, product (element by element), negative, times a
// scalar, and in one expression, one after the other. spec constants: 1 rows, 2 columns
//: arith.f16 -DT=float16_t -DU=ACC
//: arith.f32 -DT=float -DU=ACC
//: arith.s32 -DT=int -DU=ACC
//: arith.u32 -DT=uint -DU=ACC
//: arith.s8  -DT=int8_t -DU=A
//: arith.u8  -DT=uint8_t -DU=B
//: arith.a   -DT=float16_t -DU=A
//: arith.workgroup -DT=float -DU=ACC -DSCOPE=gl_ScopeWorkgroup
//: divide.f16 -DT=float16_t -DU=ACC -DDIVIDE
//: divide.f32 -DT=float -DU=ACC -DDIVIDE
//: divide.s32 -DT=int -DU=ACC -DDIVIDE
//: divide.u8  -DT=uint8_t -DU=A -DDIVIDE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(binding = 0) readonly buffer I0 { T i0[]; };
layout(binding = 1) readonly buffer I1 { T i1[]; };
layout(binding = 2) buffer O { T o[]; };
#define M MAT(T, R, C, U)
void put(uint k, M m) { coopMatStore(m, o, k * R * C, C, ROW); }
void main()
{
    M x, y;
    coopMatLoad(x, i0, 0, C, ROW);
    coopMatLoad(y, i1, 0, C, ROW);
#ifdef DIVIDE
    put(0, x / y);
#else
    put(0, x + y);
    put(1, x - y);
    put(2, x * y);
    put(3, -x);
    put(4, x * T(3));
    put(5, (x - y) * T(2) + x);
#endif
}
