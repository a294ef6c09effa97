#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Matrices of the whole workgroup, on a device that has those of subgroups.
// options: --profile amd-rdna3 --subgroup-size 32

layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 2) buffer C { float c[]; };

void main() {
    coopmat<float16_t, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseB> mb;
    coopmat<float, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(ma, a, 0, 32, gl_CooperativeMatrixLayoutRowMajor); // finds: device-scope-workgroup
    coopMatLoad(mb, a, 0, 32, gl_CooperativeMatrixLayoutRowMajor); // finds: device-scope-workgroup
    acc = coopMatMulAdd(ma, mb, acc); // finds: device-scope-workgroup
    coopMatStore(acc, c, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
