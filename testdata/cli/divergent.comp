#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Each invocation decides for itself whether the subgroup multiplies.

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer Factors { float16_t factors[]; };
layout(binding = 1) buffer Sums { float sums[]; };
layout(push_constant) uniform Rounds { uint rounds; };

void main() {
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    for (uint round = 0; round < rounds; ++round) {
        bool skip = sums[gl_LocalInvocationIndex] > 0.0;
#ifdef FAR
        // The condition is computed far from what it decides.



#endif
        if (!skip) {
            coopMatLoad(a, factors, round * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(b, factors, round * 256, 16, gl_CooperativeMatrixLayoutColumnMajor);
            c = coopMatMulAdd(a, b, c);
        }
    }
    coopMatStore(c, sums, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
