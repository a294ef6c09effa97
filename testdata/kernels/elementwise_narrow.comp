// Component-wise operations and conversions on 8-bit matrices of use A, one tile.
//
// binding 0: X, s8, M x K, row-major        binding 1: Y, s8, M x K, row-major, no zeros
// binding 2: I, s8: results one after another, each M x K
//   0 x+y   1 x-y   2 x*y   3 x/y   4 -x   5 x*s   6 s8(f16(x))
// binding 3: U, u8: results one after another, each M x K; v = u8(x), w = u8(y) are the same bits
//   0 v   1 v+w   2 v-w   3 v*w   4 v/w
// binding 4: H, f16: results one after another, each M x K
//   0 f16(x)   1 f16(v)
// push constants: int s
//
// spec constants: 0 M, 2 K, 3 invocations in a workgroup (the subgroup size)
// dispatch: (1, 1, 1)
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 2) const uint K = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferX { int8_t x[]; };
layout(set = 0, binding = 1) readonly buffer BufferY { int8_t y[]; };
layout(set = 0, binding = 2) writeonly buffer BufferI { int8_t i[]; };
layout(set = 0, binding = 3) writeonly buffer BufferU { uint8_t u[]; };
layout(set = 0, binding = 4) writeonly buffer BufferH { float16_t h[]; };

layout(push_constant) uniform Push {
    int s;
};

#define F16 coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define S8 coopmat<int8_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define U8 coopmat<uint8_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>

#define PUT(target, slot, value) coopMatStore(value, target, (slot) * M * K, K, gl_CooperativeMatrixLayoutRowMajor)

void main()
{
    S8 mx;
    S8 my;
    coopMatLoad(mx, x, 0, K, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(my, y, 0, K, gl_CooperativeMatrixLayoutRowMajor);

    PUT(i, 0, mx + my);
    PUT(i, 1, mx - my);
    PUT(i, 2, mx * my);
    PUT(i, 3, mx / my);
    PUT(i, 4, -mx);
    PUT(i, 5, mx * int8_t(s));
    PUT(i, 6, S8(F16(mx)));

    U8 v = U8(mx);
    U8 w = U8(my);
    PUT(u, 0, v);
    PUT(u, 1, v + w);
    PUT(u, 2, v - w);
    PUT(u, 3, v * w);
    PUT(u, 4, v / w);

    PUT(h, 0, F16(mx));
    PUT(h, 1, F16(v));
}
