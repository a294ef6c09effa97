// D = C + A x B, K in steps. binding 0: A (M x K, in steps of KS), 1: B (K x N), 2: C (M x N), 3: D (M x N), row-major or
// as ALAYOUT and BLAYOUT say. With TWICE every step is multiplied twice. With ZERO the sums begin as 0, and C is added behind the loop; with CLAMP
// their elements are clamped there before that.
// spec constants: 0 M, 1 N, 2 KS, 3 steps, 4 invocations
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#ifndef SCOPE
#define SCOPE gl_ScopeWorkgroup
#endif
#ifndef AT
#define AT float16_t
#endif
#ifndef BT
#define BT AT
#endif
#ifndef CT
#define CT float
#endif
#ifndef ALAYOUT
#define ALAYOUT gl_CooperativeMatrixLayoutRowMajor
#endif
#ifndef BLAYOUT
#define BLAYOUT gl_CooperativeMatrixLayoutColumnMajor
#endif
layout(constant_id = 0) const uint M = 32;
layout(constant_id = 1) const uint N = 32;
layout(constant_id = 2) const uint KS = 16;
layout(constant_id = 3) const uint STEPS = 2;
layout(local_size_x_id = 4) in;
layout(binding = 0) readonly buffer A { AT a[]; };
layout(binding = 1) readonly buffer B { BT b[]; };
layout(binding = 2) readonly buffer C { CT c[]; };
layout(binding = 3) writeonly buffer D { CT d[]; };
void main()
{
    const uint K = KS * STEPS;
    const bool aRows = ALAYOUT == gl_CooperativeMatrixLayoutRowMajor;
    const bool bRows = BLAYOUT == gl_CooperativeMatrixLayoutRowMajor;
    coopmat<CT, SCOPE, M, N, gl_MatrixUseAccumulator> sum;
#ifdef ZERO
    sum = coopmat<CT, SCOPE, M, N, gl_MatrixUseAccumulator>(CT(0));
#else
    coopMatLoad(sum, c, 0, N, gl_CooperativeMatrixLayoutRowMajor);
#endif
    for (uint k = 0; k < K; k += KS) {
        coopmat<AT, SCOPE, M, KS, gl_MatrixUseA> x;
        coopmat<BT, SCOPE, KS, N, gl_MatrixUseB> y;
        coopMatLoad(x, a, aRows ? k : k * M, aRows ? K : M, ALAYOUT);
        coopMatLoad(y, b, bRows ? k * N : k, bRows ? N : K, BLAYOUT);
        sum = coopMatMulAdd(x, y, sum);
#ifdef TWICE
        sum = coopMatMulAdd(x, y, sum);
#endif
    }
#ifdef CLAMP
    for (uint i = 0; i < sum.length(); i++) {
        sum[i] = clamp(sum[i], CT(3), CT(40));
    }
#endif
#ifdef ZERO
    coopmat<CT, SCOPE, M, N, gl_MatrixUseAccumulator> begin;
    coopMatLoad(begin, c, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    sum = sum + begin;
#endif
    coopMatStore(sum, d, 0, N, gl_CooperativeMatrixLayoutRowMajor);
}
