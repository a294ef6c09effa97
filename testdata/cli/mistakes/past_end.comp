#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Matrices begin in the middle of arrays that they fill.

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 1) readonly buffer B { float16_t b[256]; };
layout(binding = 2) buffer C { float c[]; };
shared float16_t tile[16 * 16];

void main() {
    for (uint i = gl_LocalInvocationID.x; i < 256; i += 32)
        tile[i] = a[i];
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> mb;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(ma, tile, 8, 16, gl_CooperativeMatrixLayoutRowMajor); // finds: run-out-of-bounds
    coopMatLoad(mb, b, 16, 16, gl_CooperativeMatrixLayoutRowMajor); // finds: run-out-of-bounds
    acc = coopMatMulAdd(ma, mb, acc);
    coopMatStore(acc, c, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
