// Every component-wise operation and conversion on f32 and f16 accumulators of one tile.
//
// binding 0: X, f32, M x N, row-major       binding 1: Y, f32, M x N, row-major, no zeros
// binding 2: F, f32: results one after another, each M x N
//   0 x+y   1 x-y   2 x*y   3 x/y   4 -x   5 x*s   6 s*x   7 f32(f16(x))   8 a splat of s
//   9 x+y in f16, widened   10 x*y in f16, widened   11 x*s in f16, widened   12 f32(s32(x))   13 x compounded: ((x+y)-y)*1
// binding 3: H, f16: results one after another, each M x N
//   0 f16(x)   1 h+k   2 h-k   3 h*k   4 h/k   5 -h   6 h*s     where h = f16(x), k = f16(y)
// push constants: float s
//
// spec constants: 0 M, 1 N, 3 invocations in a workgroup (the subgroup size)
// dispatch: (1, 1, 1)
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferX { float x[]; };
layout(set = 0, binding = 1) readonly buffer BufferY { float y[]; };
layout(set = 0, binding = 2) writeonly buffer BufferF { float f[]; };
layout(set = 0, binding = 3) writeonly buffer BufferH { float16_t h[]; };

layout(push_constant) uniform Push {
    float s;
};

#define F32 coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define F16 coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define S32 coopmat<int32_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

#define PUT_F(slot, value) coopMatStore(value, f, (slot) * M * N, N, gl_CooperativeMatrixLayoutRowMajor)
#define PUT_H(slot, value) coopMatStore(value, h, (slot) * M * N, N, gl_CooperativeMatrixLayoutRowMajor)

void main()
{
    F32 mx;
    F32 my;
    coopMatLoad(mx, x, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(my, y, 0, N, gl_CooperativeMatrixLayoutRowMajor);

    PUT_F(0, mx + my);
    PUT_F(1, mx - my);
    PUT_F(2, mx * my);
    PUT_F(3, mx / my);
    PUT_F(4, -mx);
    PUT_F(5, mx * s);
    PUT_F(6, s * mx);

    F16 hx = F16(mx);
    F16 hy = F16(my);
    PUT_F(7, F32(hx));
    PUT_F(8, F32(s));
    PUT_F(9, F32(hx + hy));
    PUT_F(10, F32(hx * hy));
    PUT_F(11, F32(hx * float16_t(s)));
    PUT_F(12, F32(S32(mx)));

    F32 compound = mx;
    compound += my;
    compound -= my;
    compound *= 1.0;
    PUT_F(13, compound);

    PUT_H(0, hx);
    PUT_H(1, hx + hy);
    PUT_H(2, hx - hy);
    PUT_H(3, hx * hy);
    PUT_H(4, hx / hy);
    PUT_H(5, -hx);
    PUT_H(6, hx * float16_t(s));
}
