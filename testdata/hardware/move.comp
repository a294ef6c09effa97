// A matrix from memory to memory, through pointees of every width, with strides and offsets in pointees.
// 0: input, 1: output. spec constants: 1 rows, 2 columns, 3 and 4 layout and 5 and 6 stride of load and store, 7 and 8 offset of both
//: move.f16       -DT=float16_t -DP=float16_t -DU=ACC
//: move.f16x2     -DT=float16_t -DP=f16vec2 -DU=A
//: move.f16x4     -DT=float16_t -DP=f16vec4 -DU=B
//: move.f32x4     -DT=float -DP=vec4 -DU=ACC
//: move.s8x4      -DT=int8_t -DP=i8vec4 -DU=A
//: move.u8        -DT=uint8_t -DP=uint8_t -DU=B
//: move.s32x2     -DT=int -DP=ivec2 -DU=ACC
//: move.u8-in-u32 -DT=uint8_t -DP=uint -DU=A
//: move.bf16      -DT=bfloat16_t -DP=bfloat16_t -DU=A
//: move.shared    -DT=float16_t -DP=f16vec4 -DU=A -DSHARED
//: move.physical  -DT=float16_t -DP=f16vec2 -DU=B -DPHYSICAL
//: move.workgroup -DT=float -DP=vec2 -DU=ACC -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(constant_id = 3) const int FROM = 0;
layout(constant_id = 4) const int TO = 0;
layout(constant_id = 5) const uint STRIDE_IN = 16;
layout(constant_id = 6) const uint STRIDE_OUT = 16;
layout(constant_id = 7) const uint AT_IN = 0;
layout(constant_id = 8) const uint AT_OUT = 0;
#ifdef PHYSICAL
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Memory { P at[]; };
layout(push_constant) uniform Push { Memory i; Memory o; };
#define IN i.at
#define OUT o.at
#else
layout(binding = 0) readonly buffer I { P i[]; };
layout(binding = 1) buffer O { P o[]; };
#define IN i
#define OUT o
#endif
#ifdef SHARED
const uint SIZE = 256;
shared P from[SIZE];
shared P to[SIZE];
#endif
void main()
{
    MAT(T, R, C, U) m;
#ifdef SHARED
    for (uint k = gl_LocalInvocationIndex; k < SIZE; k += THREADS) {
        from[k] = i[k];
        to[k] = o[k];
    }
    barrier();
    coopMatLoad(m, from, AT_IN, STRIDE_IN, FROM);
    coopMatStore(m, to, AT_OUT, STRIDE_OUT, TO);
    barrier();
    for (uint k = gl_LocalInvocationIndex; k < SIZE; k += THREADS) {
        o[k] = to[k];
    }
#else
    coopMatLoad(m, IN, AT_IN, STRIDE_IN, FROM);
    coopMatStore(m, OUT, AT_OUT, STRIDE_OUT, TO);
#endif
}
