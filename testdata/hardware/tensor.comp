// A slice of a tensor of 1 to 5 dimensions as a matrix, through a view that may clip, and back through the same slice.
// 0: tensor; 1: the matrix, row-major; 2: the tensor stored to.
// spec constants: 1 clamp mode, 2 and 3 rows and columns, 4 clamp value, 10.. sizes, 20.. offsets, 30.. spans, 40 to 43 clip
//: tensor1 -DD=1 -DT=float16_t -DU=ACC
//: tensor2 -DD=2 -DT=float16_t -DU=A
//: tensor3 -DD=3 -DT=float -DU=ACC
//: tensor4 -DD=4 -DT=uint8_t -DU=B
//: tensor5 -DD=5 -DT=int -DU=ACC
//: tensor2.bf16 -DD=2 -DT=bfloat16_t -DU=A
//: tensor2.s8 -DD=2 -DT=int8_t -DU=A
//: tensor2.workgroup -DD=2 -DT=float16_t -DU=A -DSCOPE=gl_ScopeWorkgroup
//: tensor3.clip -DD=3 -DT=float -DU=ACC -DCLIP
//: tensor2.clip -DD=2 -DT=float16_t -DU=A -DCLIP
//: tensor5.clip -DD=5 -DT=float16_t -DU=B -DCLIP -DSCOPE=gl_ScopeWorkgroup
//: tensor1.clip -DD=1 -DT=float16_t -DU=ACC -DCLIP
//: tensor4.clip -DD=4 -DT=uint8_t -DU=B -DCLIP
//: tensor2.physical -DD=2 -DT=float16_t -DU=A -DPHYSICAL
//: tensor2.shared -DD=2 -DT=float16_t -DU=A -DSHARED
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 1;
layout(constant_id = 2) const uint R = 16;
layout(constant_id = 3) const uint C = 16;
layout(constant_id = 4) const uint VALUE = 0x3800;
layout(constant_id = 10) const uint N0 = 1;
layout(constant_id = 11) const uint N1 = 1;
layout(constant_id = 12) const uint N2 = 1;
layout(constant_id = 13) const uint N3 = 1;
layout(constant_id = 14) const uint N4 = 1;
layout(constant_id = 20) const int F0 = 0;
layout(constant_id = 21) const int F1 = 0;
layout(constant_id = 22) const int F2 = 0;
layout(constant_id = 23) const int F3 = 0;
layout(constant_id = 24) const int F4 = 0;
layout(constant_id = 30) const uint S0 = 1;
layout(constant_id = 31) const uint S1 = 1;
layout(constant_id = 32) const uint S2 = 1;
layout(constant_id = 33) const uint S3 = 1;
layout(constant_id = 34) const uint S4 = 1;
layout(constant_id = 40) const uint ROW_FROM = 0;
layout(constant_id = 41) const uint ROWS = 0xffffffffu;
layout(constant_id = 42) const uint COLUMN_FROM = 0;
layout(constant_id = 43) const uint COLUMNS = 0xffffffffu;
layout(binding = 1) buffer O1 { T o1[]; };
#ifdef PHYSICAL
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Memory { T at[]; };
layout(push_constant) uniform Push { Memory in_; Memory out_; };
#define i in_.at
#define o2 out_.at
#else
layout(binding = 0) readonly buffer I { T i[]; };
layout(binding = 2) buffer O2 { T o2[]; };
#endif
#if D == 1
#define SIZES N0
#define SLICE F0, S0
#define VIEW tensorViewNV<1, false, 0>
#define MAKE_VIEW createTensorViewNV(1, false, 0)
#elif D == 2
#define SIZES N0, N1
#define SLICE F0, S0, F1, S1
#define VIEW tensorViewNV<2, false, 0, 1>
#define MAKE_VIEW createTensorViewNV(2, false, 0, 1)
#elif D == 3
#define SIZES N0, N1, N2
#define SLICE F0, S0, F1, S1, F2, S2
#define VIEW tensorViewNV<3, false, 0, 2, 1>
#define MAKE_VIEW createTensorViewNV(3, false, 0, 2, 1)
#elif D == 4
#define SIZES N0, N1, N2, N3
#define SLICE F0, S0, F1, S1, F2, S2, F3, S3
#define VIEW tensorViewNV<4, false, 1, 0, 3, 2>
#define MAKE_VIEW createTensorViewNV(4, false, 1, 0, 3, 2)
#else
#define SIZES N0, N1, N2, N3, N4
#define SLICE F0, S0, F1, S1, F2, S2, F3, S3, F4, S4
#define VIEW tensorViewNV<5, false, 4, 0, 2, 1, 3>
#define MAKE_VIEW createTensorViewNV(5, false, 4, 0, 2, 1, 3)
#endif
#ifdef SHARED
const uint SIZE = 1024;
shared T from[SIZE];
shared T to[SIZE];
#else
#define from i
#define to o2
#endif
void main()
{
    tensorLayoutNV<D, MODE> t = createTensorLayoutNV(D, MODE);
    t = setTensorLayoutDimensionNV(t, SIZES);
    t = setTensorLayoutClampValueNV(t, VALUE);
    t = sliceTensorLayoutNV(t, SLICE);
#ifdef SHARED
    for (uint k = gl_LocalInvocationIndex; k < SIZE; k += THREADS) {
        from[k] = i[k];
        to[k] = o2[k];
    }
    barrier();
#endif
    MAT(T, R, C, U) m = MAT(T, R, C, U)(T(7));
#ifdef CLIP
    VIEW v = MAKE_VIEW;
    v = setTensorViewClipNV(v, ROW_FROM, ROWS, COLUMN_FROM, COLUMNS);
    coopMatLoadTensorNV(m, from, 0, t, v);
    coopMatStoreTensorNV(m, to, 0, t, v);
#else
    coopMatLoadTensorNV(m, from, 0, t);
    coopMatStoreTensorNV(m, to, 0, t);
#endif
    coopMatStore(m, o1, 0, C, ROW);
#ifdef SHARED
    barrier();
    for (uint k = gl_LocalInvocationIndex; k < SIZE; k += THREADS) {
        o2[k] = to[k];
    }
#endif
}
