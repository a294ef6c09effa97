// One buffer as A, B, C and D: X = X * X + X, then X = X + X^T through memory. 0: X, 16 x 16. spec constants: 1 how often
//: alias
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint TIMES = 2;
layout(binding = 0) buffer BX { float16_t x[]; };
void main()
{
    for (uint k = 0; k < TIMES; ++k) {
        MAT(float16_t, 16, 16, A) a;
        MAT(float16_t, 16, 16, B) b;
        MAT(float16_t, 16, 16, ACC) c;
        coopMatLoad(a, x, 0, 16, ROW);
        coopMatLoad(b, x, 0, 16, ROW);
        coopMatLoad(c, x, 0, 16, ROW);
        MAT(float16_t, 16, 16, ACC) d = coopMatMulAdd(a, b, c);
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
        coopMatStore(d, x, 0, 16, ROW);
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
        MAT(float16_t, 16, 16, ACC) t;
        coopMatLoad(t, x, 0, 16, COLUMN);
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
        coopMatStore((d - t) * float16_t(0.5), x, 0, 16, ROW);
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
    }
}
