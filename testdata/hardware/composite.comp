// Matrices in arrays, structs, loops, branches and functions; elements read, written, counted. 0, 1: inputs; 2: outputs.
// spec constants: 1 rows, 2 columns; push constants: which branch, how often
//: composite.f16 -DT=float16_t -DU=A
//: composite.f32 -DT=float -DU=ACC
//: composite.s32 -DT=int -DU=ACC
//: composite.workgroup -DT=float -DU=ACC -DSCOPE=gl_ScopeWorkgroup
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 1) const uint R = 16;
layout(constant_id = 2) const uint C = 16;
layout(push_constant) uniform Push { uint branch; uint times; };
layout(binding = 0) readonly buffer I0 { T i0[]; };
layout(binding = 1) readonly buffer I1 { T i1[]; };
layout(binding = 2) buffer O { T o[]; };
#define M MAT(T, R, C, U)
struct Pair { M x; M y[2]; };
M twice(M m) { return m + m; }
void add(inout M m, const M other) { m = m + other; }
void main()
{
    M x, y;
    coopMatLoad(x, i0, 0, C, ROW);
    coopMatLoad(y, i1, 0, C, COLUMN);
    Pair p;
    p.x = x;
    p.y[0] = y;
    p.y[1] = twice(x);
    Pair q = p;
    // Chosen, changed in a loop, while the original lives on.
    M chosen = branch == 0 ? p.x : p.y[branch - 1];
    for (uint k = 0; k < times; ++k) {
        M t = chosen;
        if ((k & 1) == 1) {
            t = t + y;
        } else {
            add(t, p.y[1]);
        }
        chosen = t;
    }
    coopMatStore(chosen, o, 0, C, ROW);
    // Element by element; who holds which does not matter.
    for (int k = 0; k < x.length(); ++k) {
        q.x[k] = q.x[k] * T(2) + q.y[0][k];
    }
    coopMatStore(q.x, o, R * C, C, ROW);
    coopMatStore(p.x, o, 2 * R * C, C, COLUMN);
    M arrays[3];
    for (uint k = 0; k < 3; ++k) {
        arrays[k] = M(T(k));
        for (int e = 0; e < arrays[k].length(); ++e) {
            arrays[k][e] += x[e];
        }
    }
    coopMatStore(arrays[times % 3], o, 3 * R * C, C, ROW);
}
