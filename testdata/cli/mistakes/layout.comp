#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Rows of shared memory are loaded as columns, and there is no layout 3.

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 2) buffer C { float c[]; };
shared float16_t tile[8 * 16];

void main() {
    // 8 rows of 16, but loaded by columns.
    for (uint i = gl_LocalInvocationID.x; i < 128; i += 32)
        tile[i] = a[i];
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 8, 16, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> mb;
    coopmat<float, gl_ScopeSubgroup, 8, 8, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeSubgroup, 8, 8, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(ma, tile, 0, 16, gl_CooperativeMatrixLayoutColumnMajor); // finds: access-out-of-bounds
    coopMatLoad(mb, a, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    acc = coopMatMulAdd(ma, mb, acc);
    coopMatStore(acc, c, 0, 8, 3); // finds: access-layout-unknown
}
