// C = A * B + C, s8 matrices loaded from words: A from a uint buffer, B by way of a shared uint array.
//
// binding 0: A, uint of four s8, rows x inner, row-major      push constants: uint rows, cols, inner
// binding 1: B, uint of four s8, inner x cols, column-major
// binding 2: C, s32, rows x cols, row-major, read and written
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile; K is a multiple of 4
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(constant_id = 3) const uint THREADS = 32;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { uint a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { uint b[]; };
layout(set = 0, binding = 2) buffer BufferC { int c[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

// Four words of padding after each column: columns begin at multiples of 16 bytes, or of their length.
const uint PITCH = K / 4 + 4;
shared uint stagedB[N * PITCH];

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    coopmat<int, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc;
    coopMatLoad(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);

    for (uint k = 0; k < inner; k += K) {
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < N * K / 4; i += THREADS) {
            const uint n = i / (K / 4);
            const uint word = i % (K / 4);
            stagedB[n * PITCH + word] = b[((col + n) * inner + k) / 4 + word];
        }
        barrier();

        coopmat<int8_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<int8_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, (row * inner + k) / 4, inner / 4, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, stagedB, 0, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        acc = coopMatMulAdd(tileA, tileB, acc);
    }

    coopMatStore(acc, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}
