// A slice of a 2-D tensor that hangs over its edges. binding 0: f16 H x W. binding 1: f16 16 x 16, the matrix, row-major.
// binding 2: f16 H x W, the matrix stored through the same slice.
// spec constants: 0 clamp mode, 1 H, 2 W, 3 row offset, 4 column offset
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
layout(constant_id = 0) const uint MODE = 1;
layout(constant_id = 1) const uint H = 10;
layout(constant_id = 2) const uint W = 12;
layout(constant_id = 3) const int Y = -3;
layout(constant_id = 4) const int X = 5;
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer I { float16_t i0[]; };
layout(binding = 1) buffer O1 { float16_t o1[]; };
layout(binding = 2) buffer O2 { float16_t o2[]; };
void main()
{
    tensorLayoutNV<2, MODE> t = createTensorLayoutNV(2, MODE);
    t = setTensorLayoutDimensionNV(t, H, W);
    t = setTensorLayoutClampValueNV(t, 0x3800);
    t = sliceTensorLayoutNV(t, uint(Y), 16, uint(X), 16);
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> m = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(float16_t(7.0));
    coopMatLoadTensorNV(m, i0, 0, t);
    coopMatStore(m, o1, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStoreTensorNV(m, o2, 0, t);
}
