// SPV_NV_cooperative_matrix: D = A * B + C. binding 0: f16 16 x 8, row-major; 1: f16 8 x 16, column-major; 2: f32 16 x 16; 3: f32, written.
#version 460
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
layout(constant_id = 0) const uint K = 8;
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a0[]; };
layout(binding = 1) readonly buffer B { float16_t b0[]; };
layout(binding = 2) readonly buffer C { float c0[]; };
layout(binding = 3) buffer D { float d0[]; };
void main()
{
    fcoopmatNV<16, gl_ScopeSubgroup, 16, K> a;
    fcoopmatNV<16, gl_ScopeSubgroup, K, 16> b;
    fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> c;
    coopMatLoadNV(a, a0, 0, K, false);
    coopMatLoadNV(b, b0, 0, K, true);
    coopMatLoadNV(c, c0, 0, 16, false);
    c = coopMatMulAddNV(a, b, c);
    for (int i = 0; i < c.length(); ++i) {
        c[i] = c[i] * 2.0;
    }
    coopMatStoreNV(c, d0, 0, 16, false);
}
