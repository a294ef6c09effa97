// How far apart blocks are whose size is no multiple of their alignment. 0: u8 positions; 1: f16: the byte in the middle of each block.
//: step.half   -DMEMBERS="float16_t a; uint8_t b[3];" -DVALUE=b[0]
//: step.word   -DMEMBERS="float16_t a; uint b; uint8_t c;" -DVALUE=c
//: step.bytes  -DMEMBERS="uint8_t a[18];" -DVALUE=a[1]
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(binding = 0) readonly buffer I { uint8_t i[]; };
layout(binding = 1) buffer O { float16_t o[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Ref { MEMBERS };
float16_t decode(const in Ref r, const in uint at[2], const in uint within[2])
{
    return float16_t(r.VALUE & uint16_t(255));
}
void main()
{
    tensorLayoutNV<2, 1> t = createTensorLayoutNV(2, 1);
    t = setTensorLayoutBlockSizeNV(t, 1, 16);
    t = setTensorLayoutDimensionNV(t, 16, 32);
    t = sliceTensorLayoutNV(t, 0, 16, 0, 32);
    MAT(float16_t, 16, 32, A) m = MAT(float16_t, 16, 32, A)(float16_t(0));
    coopMatLoadTensorNV(m, i, 0, t, decode);
    coopMatStore(m, o, 0, 32, ROW);
}
