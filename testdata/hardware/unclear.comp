// Points on which the texts are silent or differ from devices; docs/hardware.md says what each shows. 0: f16 positions; 1: f16 16 x 16.
//   1 a clip with an offset and the span of a new view     2 a matrix larger than the span product, no view    3 the same with a view
//   4 default strides of a dimension that is no multiple of its block   5 the block size set after the dimensions   6 a clip wider than the matrix
//   7 mirrored, extent 1   8 mirrored over many periods   9 a slice of a slice   10 the clamp value set before the dimensions
//   11 a stride of 0: one row for all
//: unclear
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint POINT = 1;
layout(binding = 0) readonly buffer I { float16_t i[]; };
layout(binding = 1) buffer O { float16_t o[]; };
#define M MAT(float16_t, 16, 16, ACC)
void main()
{
    M m = M(float16_t(-1));
    tensorLayoutNV<2, 1> t = createTensorLayoutNV(2, 1);
    tensorLayoutNV<2, 4> mirror = createTensorLayoutNV(2, 4);
    tensorViewNV<2, false, 0, 1> v = createTensorViewNV(2, false, 0, 1);
    if (POINT == 1) {
        t = setTensorLayoutDimensionNV(t, 32, 32);
        v = setTensorViewClipNV(v, 3, 0xffffffffu, 5, 0xffffffffu);
        coopMatLoadTensorNV(m, i, 0, t, v);
    } else if (POINT == 2) {
        t = setTensorLayoutDimensionNV(t, 12, 32);
        t = setTensorLayoutClampValueNV(t, 0x3800);
        t = sliceTensorLayoutNV(t, 0, 8, 0, 16);
        coopMatLoadTensorNV(m, i, 0, t);
    } else if (POINT == 3) {
        t = setTensorLayoutDimensionNV(t, 12, 32);
        t = setTensorLayoutClampValueNV(t, 0x3800);
        t = sliceTensorLayoutNV(t, 0, 8, 0, 16);
        coopMatLoadTensorNV(m, i, 0, t, v);
    } else if (POINT == 4) {
        t = setTensorLayoutBlockSizeNV(t, 1, 4);
        t = setTensorLayoutDimensionNV(t, 16, 18);
        t = sliceTensorLayoutNV(t, 0, 16, 0, 16);
        coopMatLoadTensorNV(m, i, 0, t);
    } else if (POINT == 5) {
        t = setTensorLayoutDimensionNV(t, 32, 32);
        t = setTensorLayoutBlockSizeNV(t, 2, 4);
        t = sliceTensorLayoutNV(t, 0, 16, 0, 16);
        coopMatLoadTensorNV(m, i, 0, t);
    } else if (POINT == 6) {
        t = setTensorLayoutDimensionNV(t, 32, 32);
        t = sliceTensorLayoutNV(t, 0, 16, 0, 16);
        v = setTensorViewClipNV(v, 2, 64, 3, 64);
        coopMatLoadTensorNV(m, i, 0, t, v);
    } else if (POINT == 7) {
        mirror = setTensorLayoutDimensionNV(mirror, 1, 32);
        mirror = sliceTensorLayoutNV(mirror, -5, 16, 0, 16);
        coopMatLoadTensorNV(m, i, 0, mirror);
    } else if (POINT == 8) {
        mirror = setTensorLayoutDimensionNV(mirror, 3, 2);
        mirror = sliceTensorLayoutNV(mirror, -20, 16, 31, 16);
        coopMatLoadTensorNV(m, i, 0, mirror);
    } else if (POINT == 9) {
        t = setTensorLayoutDimensionNV(t, 32, 32);
        t = sliceTensorLayoutNV(t, 10, 20, 8, 20);
        t = sliceTensorLayoutNV(t, -3, 16, 2, 16);
        coopMatLoadTensorNV(m, i, 0, t);
    } else if (POINT == 10) {
        t = setTensorLayoutClampValueNV(t, 0x3800);
        t = setTensorLayoutDimensionNV(t, 12, 12);
        t = sliceTensorLayoutNV(t, 0, 16, 0, 16);
        coopMatLoadTensorNV(m, i, 0, t);
    } else if (POINT == 11) {
        t = setTensorLayoutDimensionNV(t, 16, 16);
        t = setTensorLayoutStrideNV(t, 0, 1);
        coopMatLoadTensorNV(m, i, 32, t);
    }
    coopMatStore(m, o, 0, 16, ROW);
}
