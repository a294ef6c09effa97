// Per-element operations: by row and column, with a scalar, with other matrices, in a chain.
// 0: R x C; 1: by place; 2: with a matrix; 3: of all, kept where row = column. spec constants: 1 R, 2 C
//: element.f16           -DT=float16_t -DU=ACC
//: element.f32           -DT=float -DU=ACC
//: element.s32           -DT=int -DU=ACC
//: element.a             -DT=float16_t -DU=A
//: element.s8            -DT=int8_t -DU=B
//: element.struct        -DT=float -DU=ACC -DSTRUCT
//: element.workgroup     -DT=float -DU=ACC -DSCOPE=gl_ScopeWorkgroup
//: element.a.workgroup   -DT=float16_t -DU=A -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(binding = 0) readonly buffer I { T i[]; };
layout(binding = 1) buffer O1 { T o1[]; };
layout(binding = 2) buffer O2 { T o2[]; };
layout(binding = 3) buffer O3 { T o3[]; };
#ifdef STRUCT
struct Inner { uint shift; T of[2]; };
struct Factors { T k; Inner inner; };
T place(const in uint r, const in uint c, const in T x, const in Factors f)
{
    return x + f.k * T(r & 7) + f.inner.of[(r >> f.inner.shift) & 1] * T(c & 3);
}
#define FACTOR Factors(T(2), Inner(1, T[2](T(1), T(-3))))
#else
T place(const in uint r, const in uint c, const in T x, const in T k) { return x + k * T(r & 7) + T(c & 3); }
#define FACTOR T(2)
#endif
T both(const in uint r, const in uint c, const in T x, const in T y, const in T z) { return (r & 1) == (c & 1) ? x * y : z; }
T diagonal(const in uint r, const in uint c, const in T x) { return r == c ? x : T(0); }
void main()
{
    MAT(T, R, C, U) m;
    coopMatLoad(m, i, 0, C, ROW);
    MAT(T, R, C, U) p;
    coopMatPerElementNV(p, m, place, FACTOR);
    coopMatStore(p, o1, 0, C, ROW);
    MAT(T, R, C, U) q;
    coopMatPerElementNV(q, p, both, m, m);
    coopMatStore(q, o2, 0, C, ROW);
    coopMatPerElementNV(q, q, diagonal);
    coopMatStore(q, o3, 0, C, ROW);
}
