// D = min(max(A * B + C, 0), limit): an activation applied element by element, one subgroup to an M x N tile.
// The elements go through an array that holds any matrix of this size, whoever owns its elements.
//
// binding 0: A, f16, rows x inner, row-major        push constants: uint rows, cols, inner; float limit
// binding 1: B, f16, inner x cols, row-major
// binding 2: C, f32, rows x cols, row-major
// binding 3: D, f32, rows x cols, row-major, written
// binding 4: S, f32, one per workgroup and invocation: the sum of its elements of D. Which elements an invocation holds
//            is the device's choice: only the sum over a workgroup is defined.
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) readonly buffer BufferC { float c[]; };
layout(set = 0, binding = 3) writeonly buffer BufferD { float d[]; };
layout(set = 0, binding = 4) writeonly buffer BufferS { float sums[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
    float limit;
};

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc;
    coopMatLoad(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
    for (uint k = 0; k < inner; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, row * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, b, k * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
        acc = coopMatMulAdd(tileA, tileB, acc);
    }

    // In place: relu.
    for (int e = 0; e < acc.length(); ++e) {
        acc[e] = max(acc[e], 0.0);
    }

    // Through an array: clamp. No invocation holds more than the whole matrix.
    const int held = acc.length();
    float copy[M * N];
    for (int e = 0; e < held; ++e) {
        copy[e] = acc[e];
    }
    float sum = 0.0;
    for (int e = held - 1; e >= 0; --e) {
        copy[e] = min(copy[e], limit);
        sum += copy[e];
    }
    for (int e = 0; e < held; ++e) {
        acc[e] = copy[e];
    }

    coopMatStore(acc, d, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
    sums[(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationIndex] = sum;
}
