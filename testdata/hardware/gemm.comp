// D = alpha * A * B + beta * C, 2 x 2 tiles to a subgroup, A and B through shared memory; A in bytes with a scale for each
// row of a K step if DEQUANT. 0: A, 1: B, 2: C, 3: D, 4: scales. push constants: alpha, beta, k
// spec constants: 1 tile in K
//: gemm
//: gemm.dequant -DDEQUANT
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint K = 16;
const uint M = 32;
const uint N = 32;
layout(push_constant) uniform Push { float alpha; float beta; uint k; };
#ifdef DEQUANT
layout(binding = 0) readonly buffer BA { int8_t a[]; };
layout(binding = 4) readonly buffer BS { float16_t s[]; };
#else
layout(binding = 0) readonly buffer BA { float16_t a[]; };
#endif
layout(binding = 1) readonly buffer BB { float16_t b[]; };
layout(binding = 2) readonly buffer BC { float c[]; };
layout(binding = 3) buffer BD { float d[]; };
shared float16_t sa[M * (K + 8)];
shared float16_t sb[K * (N + 8)];
void main()
{
    const uint lane = gl_LocalInvocationIndex;
    const uint columns = N * gl_NumWorkGroups.x;
    const uint row = gl_WorkGroupID.y * M;
    const uint column = gl_WorkGroupID.x * N;
    MAT(float, 16, 16, ACC) acc[2][2];
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 2; ++j) {
            acc[i][j] = MAT(float, 16, 16, ACC)(0.0);
        }
    }
    for (uint at = 0; at < k; at += K) {
        for (uint i = lane; i < M * K; i += THREADS) {
            const uint from = (row + i / K) * k + at + i % K;
#ifdef DEQUANT
            sa[i / K * (K + 8) + i % K] = float16_t(a[from]) * s[(row + i / K) * (k / K) + at / K];
#else
            sa[i / K * (K + 8) + i % K] = a[from];
#endif
        }
        for (uint i = lane; i < K * N; i += THREADS) {
            sb[i / N * (N + 8) + i % N] = b[(at + i / N) * columns + column + i % N];
        }
        barrier();
        MAT(float16_t, 16, K, A) ma[2];
        MAT(float16_t, K, 16, B) mb[2];
        for (uint i = 0; i < 2; ++i) {
            coopMatLoad(ma[i], sa, i * 16 * (K + 8), K + 8, ROW);
            coopMatLoad(mb[i], sb, i * 16, N + 8, ROW);
        }
        for (uint i = 0; i < 2; ++i) {
            for (uint j = 0; j < 2; ++j) {
                acc[i][j] = coopMatMulAdd(ma[i], mb[j], acc[i][j]);
            }
        }
        barrier();
    }
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 2; ++j) {
            const uint at = (row + i * 16) * columns + column + j * 16;
            MAT(float, 16, 16, ACC) old;
            coopMatLoad(old, c, at, columns, ROW);
            coopMatStore(acc[i][j] * alpha + old * beta, d, at, columns, ROW);
        }
    }
}
