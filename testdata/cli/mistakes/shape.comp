#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// The device has no matrices of 8 rows and 32 columns.
// options: --profile nvidia-h100

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 2) buffer C { float16_t c[]; };

void main() {
    coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeSubgroup, 8, 32, gl_MatrixUseB> mb;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseAccumulator> acc =
        coopmat<float16_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(ma, a, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(mb, a, 512, 32, gl_CooperativeMatrixLayoutRowMajor); // finds: device-type
    acc = coopMatMulAdd(ma, mb, acc);
    coopMatStore(acc, c, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
