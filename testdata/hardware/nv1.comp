// SPV_NV_cooperative_matrix: D = A * B + C, its elements changed, stored. 0: A, 1: B, 2: C, 3: D.
// spec constants: 1 K, 2 to 4 columns first in A, B, C and D
//: nv1.f16     -DMA=fcoopmatNV -DMC=fcoopmatNV -DBITS=16 -DCBITS=16 -DTA=float16_t -DTC=float16_t
//: nv1.f16-f32 -DMA=fcoopmatNV -DMC=fcoopmatNV -DBITS=16 -DCBITS=32 -DTA=float16_t -DTC=float
//: nv1.s8      -DMA=icoopmatNV -DMC=icoopmatNV -DBITS=8 -DCBITS=32 -DTA=int8_t -DTC=int
//: nv1.u8      -DMA=ucoopmatNV -DMC=ucoopmatNV -DBITS=8 -DCBITS=32 -DTA=uint8_t -DTC=uint
#version 460
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
layout(constant_id = 0) const uint THREADS = 32;
layout(constant_id = 1) const uint K = 16;
layout(constant_id = 2) const bool CA = false;
layout(constant_id = 3) const bool CB = false;
layout(constant_id = 4) const bool CC = false;
layout(constant_id = 5) const uint N = 8;
layout(local_size_x_id = 0) in;
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { TA a0[]; };
layout(binding = 1) readonly buffer B { TA b0[]; };
layout(binding = 2) readonly buffer C { TC c0[]; };
layout(binding = 3) buffer D { TC d0[]; };
void main()
{
    MA<BITS, gl_ScopeSubgroup, 16, K> a;
    MA<BITS, gl_ScopeSubgroup, K, N> b;
    MC<CBITS, gl_ScopeSubgroup, 16, N> c;
    coopMatLoadNV(a, a0, 0, 32, CA);
    coopMatLoadNV(b, b0, 0, 32, CB);
    coopMatLoadNV(c, c0, 0, 32, CC);
    c = coopMatMulAddNV(a, b, c);
    for (int i = 0; i < c.length(); ++i) {
        c[i] = c[i] * TC(2);
    }
    MC<CBITS, gl_ScopeSubgroup, 16, N> e = c + c;
    coopMatStoreNV(-e, d0, 0, 32, CC);
}
