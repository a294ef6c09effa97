// How often callbacks run, and what reductions make of functions that are not associative: implementations are free.
// 0: f32 16 x 16; 1: u32 calls per element of an accumulator, 2: of an A; 3: f32, each invocation's own number; 4: f32 16 x 16, x - y along rows
//: once
//: once.workgroup -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(binding = 0) readonly buffer I { float i[]; };
layout(binding = 1) buffer O1 { uint calls[]; };
layout(binding = 2) buffer O2 { uint calls_a[]; };
layout(binding = 3) buffer O3 { float o3[]; };
layout(binding = 4) buffer O4 { float o4[]; };
float count(const in uint r, const in uint c, const in float x) { atomicAdd(calls[r * 32 + c], 1); return x; }
float16_t count_a(const in uint r, const in uint c, const in float16_t x) { atomicAdd(calls_a[r * 32 + c], 1); return x; }
float own(const in uint r, const in uint c, const in float x, const in float lane) { return lane; }
float minus(const in float x, const in float y) { return x - y; }
void main()
{
    MAT(float, 32, 32, ACC) m;
    coopMatLoad(m, i, 0, 32, ROW);
    MAT(float, 32, 32, ACC) p;
    coopMatPerElementNV(p, m, count);
    MAT(float16_t, 32, 32, A) a = MAT(float16_t, 32, 32, A)(float16_t(1));
    coopMatPerElementNV(a, a, count_a);
    coopMatPerElementNV(p, m, own, float(gl_LocalInvocationIndex));
    coopMatStore(p, o3, 0, 32, ROW);
    coopMatReduceNV(p, m, gl_CooperativeMatrixReduceRowNV, minus);
    coopMatStore(p, o4, 0, 32, ROW);
}
