// What views and strides are for. 0: f16 tensor of 1024; 1: f16 outputs of 256 each; 2: f16 tensor of 1024, stored to.
//   0 a slice, transposed        1 space to depth: 16 x 16 in blocks of 2 x 2 as 64 x 4     2 a view with sizes and strides of its own
//   3 rows with a pitch          4 a convolution's patches: 4 x 4 of 3 x 3, padded
//   5 fewer dimensions in the view than in the layout
//: view
//: view.workgroup -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(binding = 0) readonly buffer I { float16_t i[]; };
layout(binding = 1) buffer O1 { float16_t o1[]; };
layout(binding = 2) buffer O2 { float16_t o2[]; };
#define M MAT(float16_t, 16, 16, A)
void put(uint k, M m) { coopMatStore(m, o1, k * 256, 16, ROW); }
void main()
{
    const M none = M(float16_t(-1));
    M m = none;
    tensorLayoutNV<2, 1> t = createTensorLayoutNV(2, 1);
    t = setTensorLayoutDimensionNV(t, 32, 32);
    t = sliceTensorLayoutNV(t, 5, 16, 9, 16);
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    coopMatLoadTensorNV(m, i, 0, t, transposed);
    put(0, m);
    coopMatStoreTensorNV(m, o2, 0, t, transposed);

    m = none;
    tensorLayoutNV<4, 1> blocks = createTensorLayoutNV(4, 1);
    blocks = setTensorLayoutDimensionNV(blocks, 8, 2, 8, 2);
    tensorViewNV<4, false, 0, 2, 1, 3> depth = createTensorViewNV(4, false, 0, 2, 1, 3);
    coopMatLoadTensorNV(m, i, 256, blocks, depth);
    put(1, m);

    m = none;
    tensorLayoutNV<1, 1> line = createTensorLayoutNV(1, 1);
    line = setTensorLayoutDimensionNV(line, 900);
    tensorViewNV<3, true, 2, 0, 1> own = createTensorViewNV(3, true, 2, 0, 1);
    own = setTensorViewDimensionsNV(own, 4, 8, 8);
    own = setTensorViewStrideNV(own, 200, 24, 3);
    coopMatLoadTensorNV(m, i, 0, line, own);
    put(2, m);

    m = none;
    tensorLayoutNV<2, 1> pitch = createTensorLayoutNV(2, 1);
    pitch = setTensorLayoutDimensionNV(pitch, 16, 16);
    pitch = setTensorLayoutStrideNV(pitch, 40, 1);
    coopMatLoadTensorNV(m, i, 8, pitch);
    put(3, m);
    coopMatStoreTensorNV(m, o2, 8, pitch);

    // Row y * 4 + x holds the 3 x 3 neighbourhood of pixel (y, x) of a 4 x 4 image, with 16 columns of which 9 count.
    m = M(float16_t(0));
    tensorLayoutNV<2, 1> image = createTensorLayoutNV(2, 1);
    image = setTensorLayoutDimensionNV(image, 4, 4);
    image = setTensorLayoutStrideNV(image, 4, 1);
    for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
            tensorLayoutNV<2, 1> shifted = sliceTensorLayoutNV(image, dy, 4, dx, 4);
            tensorViewNV<2, false, 0, 1> column = createTensorViewNV(2, false, 0, 1);
            column = setTensorViewClipNV(column, 0, 16, uint((dy + 1) * 3 + dx + 1), 1);
            coopMatLoadTensorNV(m, i, 512, shifted, column);
        }
    }
    put(4, m);

    m = none;
    tensorLayoutNV<3, 1> cube = createTensorLayoutNV(3, 1);
    cube = setTensorLayoutDimensionNV(cube, 16, 16, 4);
    cube = sliceTensorLayoutNV(cube, 0, 16, 0, 16, 0, 1);
    tensorViewNV<2, false, 1, 0> plane = createTensorViewNV(2, false, 1, 0);
    coopMatLoadTensorNV(m, i, 0, cube, plane);
    put(5, m);
}
