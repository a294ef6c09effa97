#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Invocations without a row leave before the subgroup multiplies.

layout(local_size_x = 32, local_size_y = 2) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 1) readonly buffer B { float16_t b[]; };
layout(binding = 2) buffer C { float c[]; };
layout(push_constant) uniform P { uint M; uint N; uint K; };

void main() {
    uint row = gl_GlobalInvocationID.x;
    if (row >= M)
        return;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc = // finds: uniformity-flow
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    uint tile = gl_WorkGroupID.x * 256;
    for (uint k = 0; k < K; k += 16) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> ma;
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> mb;
        coopMatLoad(ma, a, tile + k, K, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(mb, b, k * N, N, gl_CooperativeMatrixLayoutRowMajor);
        acc = coopMatMulAdd(ma, mb, acc);
    }
    coopMatStore(acc, c, tile, N, gl_CooperativeMatrixLayoutRowMajor);
}
