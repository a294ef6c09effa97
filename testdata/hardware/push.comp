// Offsets, strides and slices that come from push constants, and elements of matrices that have no variable.
// 0, 1: inputs; 2: outputs, R x C each: their sum, the same with element 0 taken from the value, (tensor only) a slice.
// spec constants: 1 rows, 2 columns
//: push        -DT=float16_t -DU=ACC
//: push.tensor -DT=float16_t -DU=A -DTENSOR
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(push_constant) uniform Push {
    uint at;
    uint stride_in;
    uint stride_out;
    uint offset_row;
    uint offset_column;
};
layout(binding = 0) readonly buffer I0 { T i0[]; };
layout(binding = 1) readonly buffer I1 { T i1[]; };
layout(binding = 2) buffer O { T o[]; };
#define M MAT(T, R, C, U)
void main()
{
    M x, y;
    coopMatLoad(x, i0, at, stride_in, ROW);
    coopMatLoad(y, i1, at, stride_in, COLUMN);
    M z = x + y;
    coopMatStore(z, o, 0, stride_out, ROW);
    z[0] = (x - y)[0] + T(2) * y[0];
    coopMatStore(z, o, R * stride_out, stride_out, ROW);
#ifdef TENSOR
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> t =
        createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    t = setTensorLayoutDimensionNV(t, R + at, C);
    t = setTensorLayoutStrideNV(t, stride_in, 1);
    t = setTensorLayoutClampValueNV(t, 0x3c00);
    coopMatLoadTensorNV(x, i0, 0, sliceTensorLayoutNV(t, offset_row, R, offset_column, C));
    coopMatStore(x, o, 2 * R * stride_out, stride_out, ROW);
#endif
}
