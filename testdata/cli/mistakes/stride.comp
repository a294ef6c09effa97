#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Strides count elements: one is in bytes, one is too small.

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 2) buffer C { float c[]; };
shared float16_t tile[16 * 24];

void main() {
    for (uint i = gl_LocalInvocationID.x; i < 16 * 24; i += 32)
        tile[i] = a[i];
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> mb;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    // The stride is in elements, not bytes.
    coopMatLoad(ma, tile, 0, 24 * 2, gl_CooperativeMatrixLayoutRowMajor); // finds: access-out-of-bounds
    coopMatLoad(mb, tile, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    acc = coopMatMulAdd(ma, mb, acc);
    coopMatStore(acc, c, 0, 8, gl_CooperativeMatrixLayoutRowMajor); // finds: store-rows-overlap
}
