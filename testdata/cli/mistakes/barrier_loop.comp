#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Each invocation has another number of rounds, with barriers in them.

layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 2) buffer C { float c[]; };
shared float16_t tile[16 * 16];

void main() {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    uint n = gl_LocalInvocationID.x + 4;
    for (uint k = 0; k < n; ++k) {
        for (uint i = gl_LocalInvocationID.x; i < 256; i += 64)
            tile[i] = a[k * 256 + i];
        barrier(); // finds: uniformity-barrier
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> ma;
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> mb;
        coopMatLoad(ma, tile, 0, 16, gl_CooperativeMatrixLayoutRowMajor); // finds: uniformity-flow
        coopMatLoad(mb, tile, 0, 16, gl_CooperativeMatrixLayoutColumnMajor);
        acc = coopMatMulAdd(ma, mb, acc);
        barrier();
    }
    coopMatStore(acc, c, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
