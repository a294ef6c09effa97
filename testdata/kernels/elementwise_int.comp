// Every component-wise operation and conversion on s32 and u32 accumulators of one tile.
//
// binding 0: X, s32, M x N, row-major       binding 1: Y, s32, M x N, row-major, no zeros
// binding 2: I, s32: results one after another, each M x N
//   0 x+y   1 x-y   2 x*y   3 x/y   4 -x   5 x*s   6 a splat of s   7 s32(f32(x))   8 s32(u32(x) + u32(y))
// binding 3: U, u32: results one after another, each M x N; v = u32(x), w = u32(y) are the same bits
//   0 v   1 v+w   2 v-w   3 v*w   4 v/w   5 v*u32(s)   6 u32(f32(|x|))
// binding 4: F, f32: results one after another, each M x N
//   0 f32(x)   1 f32(v)
// push constants: int s
//
// spec constants: 0 M, 1 N, 3 invocations in a workgroup (the subgroup size)
// dispatch: (1, 1, 1)
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferX { int32_t x[]; };
layout(set = 0, binding = 1) readonly buffer BufferY { int32_t y[]; };
layout(set = 0, binding = 2) writeonly buffer BufferI { int32_t i[]; };
layout(set = 0, binding = 3) writeonly buffer BufferU { uint32_t u[]; };
layout(set = 0, binding = 4) writeonly buffer BufferF { float f[]; };

layout(push_constant) uniform Push {
    int s;
};

#define F32 coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define S32 coopmat<int32_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define U32 coopmat<uint32_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

#define PUT(target, slot, value) coopMatStore(value, target, (slot) * M * N, N, gl_CooperativeMatrixLayoutRowMajor)

void main()
{
    S32 mx;
    S32 my;
    coopMatLoad(mx, x, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(my, y, 0, N, gl_CooperativeMatrixLayoutRowMajor);

    PUT(i, 0, mx + my);
    PUT(i, 1, mx - my);
    PUT(i, 2, mx * my);
    PUT(i, 3, mx / my);
    PUT(i, 4, -mx);
    PUT(i, 5, mx * s);
    PUT(i, 6, S32(s));
    PUT(i, 7, S32(F32(mx)));

    U32 v = U32(mx);
    U32 w = U32(my);
    PUT(i, 8, S32(v + w));

    PUT(u, 0, v);
    PUT(u, 1, v + w);
    PUT(u, 2, v - w);
    PUT(u, 3, v * w);
    PUT(u, 4, v / w);
    PUT(u, 5, v * uint(s));

    F32 magnitude = F32(mx);
    for (int e = 0; e < magnitude.length(); ++e) {
        magnitude[e] = abs(magnitude[e]);
    }
    PUT(u, 6, U32(magnitude));

    PUT(f, 0, F32(mx));
    PUT(f, 1, F32(v));
}
