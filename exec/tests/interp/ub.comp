// One kind of undefined behaviour for each value of spec constant 0. Two subgroups of 32. binding 0: f32 256, binding 1: f32 256, written.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
layout(constant_id = 0) const uint CASE = 0;
layout(constant_id = 1) const uint K = 16;
layout(local_size_x = 64) in;
layout(binding = 0) buffer I { float i0[]; };
layout(binding = 1) buffer O { float o0[]; };
shared float s[64];
shared float t[256];
#define ACC coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
void main()
{
    const uint lane = gl_LocalInvocationIndex;
    ACC m = ACC(1.0);
    if (CASE == 1) {
        const float seven = i0[7];
        if (lane < uint(seven)) {
            coopMatLoad(m, i0, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
        }
    } else if (CASE == 2) {
        coopMatLoad(m, i0, 0, lane < 40 ? 16 : 8, gl_CooperativeMatrixLayoutRowMajor);
    } else if (CASE == 3) {
        o0[lane * 16] = 1.0;
    } else if (CASE == 4) {
        s[lane + uint(i0[1])] = 1.0;
    } else if (CASE == 5) {
        float x;
        if (lane > 100) {
            x = 1.0;
        }
        o0[0] = x + 1.0;
    } else if (CASE == 6) {
        s[lane] = float(lane);
        o0[lane] = s[lane ^ 1];
    } else if (CASE == 7) {
        coopMatStore(m, t, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
        o0[lane] = t[lane];
    } else if (CASE == 8) {
        while (i0[lane] >= 0.0) {
            i0[lane] += 1.0;
        }
    } else if (CASE == 9) {
        m[0] = float(lane % 32);
        coopMatStore(m, o0, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    } else if (CASE == 10) {
        o0[lane] = float(lane / uint(i0[0]));
    } else if (CASE == 11) {
        if (lane == 3) {
            return;
        }
        barrier();
    } else if (CASE == 12) {
        o0[lane] = s[lane];
    } else if (CASE == 13) {
        m = ACC(float(lane));
        coopMatStore(m, o0, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    } else if (CASE == 14) {
        coopmat<float, gl_ScopeSubgroup, 16, K, gl_MatrixUseA> a = coopmat<float, gl_ScopeSubgroup, 16, K, gl_MatrixUseA>(1.0);
        coopmat<float, gl_ScopeSubgroup, K, 16, gl_MatrixUseB> b = coopmat<float, gl_ScopeSubgroup, K, 16, gl_MatrixUseB>(1.0);
        m = coopMatMulAdd(a, b, m);
    } else if (CASE == 15) {
        float x;
        if (x > lane) {
            o0[lane] = 1.0;
        }
    } else if (CASE == 16) {
        // What is right: a barrier between.
        s[lane] = float(lane);
        barrier();
        o0[lane] = s[lane ^ 1];
        barrier();
        coopMatStore(m, t, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    } else if (CASE == 17) {
        coopMatLoad(m, i0, 200, 16, gl_CooperativeMatrixLayoutRowMajor);
    }
}
