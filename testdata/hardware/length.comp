// Lengths and constants. 0: for each invocation the lengths of four matrices; 1: whether all invocations together hold every
// element; 2 to 4: constants, one of them specialised.
// spec constants: 1 rows, 2 columns, 3 the value
//: length
//: length.workgroup -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(constant_id = 3) const float VALUE = 2.5;
layout(binding = 0) buffer O0 { uint lengths[]; };
layout(binding = 1) buffer O1 { uint enough[]; };
layout(binding = 2) buffer O2 { float16_t o2[]; };
layout(binding = 3) buffer O3 { float o3[]; };
layout(binding = 4) buffer O4 { int o4[]; };
shared uint total[4];
void main()
{
    MAT(float16_t, R, C, A) a = MAT(float16_t, R, C, A)(float16_t(VALUE));
    MAT(float16_t, R, C, B) b = MAT(float16_t, R, C, B)(float16_t(-1.5));
    MAT(float, R, C, ACC) c = MAT(float, R, C, ACC)(VALUE * 3.0);
    MAT(int, R, C, ACC) d = MAT(int, R, C, ACC)(-7);
    const uint lane = gl_LocalInvocationIndex;
    if (lane < 4) {
        total[lane] = 0;
    }
    barrier();
    const uint four[4] = uint[4](a.length(), b.length(), c.length(), d.length());
    for (uint k = 0; k < 4; ++k) {
        lengths[lane * 4 + k] = four[k];
        atomicAdd(total[k], four[k]);
    }
    barrier();
    if (lane < 4) {
        enough[lane] = total[lane] >= R * C ? 1 : 0;
    }
    coopMatStore(a, o2, 0, C, ROW);
    coopMatStore(b, o2, R * C, C, ROW);
    coopMatStore(c, o3, 0, C, ROW);
    coopMatStore(d, o4, 0, C, ROW);
}
