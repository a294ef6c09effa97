// A tensor of blocks of 8 x 4-bit numbers with a scale, decoded while it is loaded. binding 0: blocks of { f16 scale; u16 pad; u32 nibbles }, a
// 16 x 4 grid of them: 16 rows of 32 numbers. binding 1: f16, the 16 x 32 matrix, row-major; rows from 12 on are out of bounds.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 32) in;
struct Block { float16_t scale; uint16_t pad; uint nibbles; };
layout(binding = 0) readonly buffer I { Block i0[]; };
layout(binding = 1) buffer O1 { float16_t o1[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer B { Block b; };
float16_t decode(const in B block, const in uint at[2], const in uint within[2])
{
    return block.b.scale * float16_t((block.b.nibbles >> (4 * within[1])) & 15) + float16_t(at[0] & 1);
}
void main()
{
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> t = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    t = setTensorLayoutBlockSizeNV(t, 1, 8);
    t = setTensorLayoutDimensionNV(t, 12, 32);
    t = sliceTensorLayoutNV(t, 0, 16, 0, 32);
    coopmat<float16_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> m = coopmat<float16_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>(float16_t(0));
    coopMatLoadTensorNV(m, i0, 0, t, decode);
    coopMatStore(m, o1, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
