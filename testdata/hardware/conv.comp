// A convolution as a multiplication: 8 x 8 pixels of 16 channels with 3 x 3 taps to 16 channels. The image is loaded tap by
// tap with a slice that hangs over its edges. 0: f16 image[8][8][16]; 1: f16 taps[3][3][16][16]; 2: f32 out[8][8][16]. spec constants: 1 clamp mode
//: conv
//: conv.workgroup -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 1;
layout(binding = 0) readonly buffer I { float16_t image[]; };
layout(binding = 1) readonly buffer W { float16_t taps[]; };
layout(binding = 2) buffer O { float o[]; };
void main()
{
    tensorLayoutNV<3, MODE> t = createTensorLayoutNV(3, MODE);
    t = setTensorLayoutDimensionNV(t, 8, 8, 16);
    MAT(float, 64, 16, ACC) acc = MAT(float, 64, 16, ACC)(0.0);
    for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 3; ++x) {
            MAT(float16_t, 64, 16, A) a = MAT(float16_t, 64, 16, A)(float16_t(0));
            MAT(float16_t, 16, 16, B) b;
            coopMatLoadTensorNV(a, image, 0, sliceTensorLayoutNV(t, y - 1, 8, x - 1, 8, 0, 16));
            coopMatLoad(b, taps, (y * 3 + x) * 256, 16, ROW);
            acc = coopMatMulAdd(a, b, acc);
        }
    }
    coopMatStore(acc, o, 0, 16, ROW);
}
