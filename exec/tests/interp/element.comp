// Per-element operations, conversions of use, transposition. binding 0: f32 16 x 8. Outputs f32 from binding 1 on.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#ifndef SCOPE
#define SCOPE gl_ScopeSubgroup
#endif
layout(constant_id = 0) const uint THREADS = 32;
layout(local_size_x_id = 0) in;
layout(binding = 0) readonly buffer I { float i0[]; };
layout(binding = 1) buffer O1 { float o1[]; };
layout(binding = 2) buffer O2 { float o2[]; };
layout(binding = 3) buffer O3 { float16_t o3[]; };
layout(binding = 4) buffer O4 { float16_t o4[]; };
layout(binding = 5) buffer O5 { uint calls[]; };
#define ACC(M, N) coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator>
float place(const in uint r, const in uint c, const in float x, const in float k) { return x + k * float(r) + 100.0 * float(c); }
float both(const in uint r, const in uint c, const in float x, const in float y) { return x * y; }
float scatter(const in uint r, const in uint c, const in float x) { atomicAdd(calls[r * 8 + c], 1); return x; }
void main()
{
    ACC(16, 8) m;
    coopMatLoad(m, i0, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    ACC(16, 8) p;
    coopMatPerElementNV(p, m, place, 1000.0);
    coopMatStore(p, o1, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    ACC(16, 8) q;
    coopMatPerElementNV(q, p, both, m);
    coopMatStore(q, o2, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    coopMatPerElementNV(q, m, scatter);

    coopmat<float16_t, SCOPE, 16, 8, gl_MatrixUseAccumulator> h = coopmat<float16_t, SCOPE, 16, 8, gl_MatrixUseAccumulator>(m);
    coopmat<float16_t, SCOPE, 16, 8, gl_MatrixUseA> a = coopmat<float16_t, SCOPE, 16, 8, gl_MatrixUseA>(m);
    coopMatStore(a, o3, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float16_t, SCOPE, 8, 16, gl_MatrixUseB> b;
    coopMatTransposeNV(b, h);
    coopMatStore(b, o4, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
