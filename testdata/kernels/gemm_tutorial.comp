// C = A * B, tiled and double-buffered: while one K tile is multiplied, the next is already on its way to shared memory.
// A workgroup has two subgroups and computes a TILE_M x TILE_N tile of C; each subgroup computes half of the rows.
//
// binding 0: A, f16, M x K, row-major
// binding 1: B, f16, pre-tiled: for each of ceil(N / TILE_N) column tiles, for each of numKTiles K tiles, TILE_K x TILE_N
//            halves in row-major order; rows beyond K and columns beyond N are zero
// binding 2: C, f32, M x N, row-major, written
// push constants: uint M, N, K
//
// spec constants: 0 CM_M, 1 CM_N, 2 CM_K (matrix), 3 subgroup_size, 4 TILE_M, 5 TILE_N, 6 TILE_K, 7 numKTiles = ceil(K / TILE_K)
// TILE_M is a multiple of 2 * CM_M, TILE_N of CM_N, TILE_K of CM_K and 2.
// dispatch: (ceil(N / TILE_N), ceil(M / TILE_M), 1); M, N and K are any
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(constant_id = 0) const uint CM_M = 16;
layout(constant_id = 1) const uint CM_N = 16;
layout(constant_id = 2) const uint CM_K = 16;
layout(constant_id = 3) const uint subgroup_size = 32;
layout(constant_id = 4) const uint TILE_M = 32;
layout(constant_id = 5) const uint TILE_N = 32;
layout(constant_id = 6) const uint TILE_K = 32;
layout(constant_id = 7) const uint numKTiles = 1;

layout(local_size_x_id = 3) in;
layout(local_size_x = 32, local_size_y = 2) in;

const uint SUBGROUPS = 2;
const uint THREADS = subgroup_size * SUBGROUPS;
const uint ROWS = TILE_M / SUBGROUPS / CM_M;
const uint COLS = TILE_N / CM_N;
const uint STEPS = TILE_K / CM_K;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) writeonly buffer BufferC { float c[]; };

layout(push_constant) uniform Push {
    uint M;
    uint N;
    uint K;
};

shared float16_t tileA[2 * TILE_M * TILE_K];
shared float16_t tileB[2 * TILE_K * TILE_N];
shared float tileC[TILE_M * TILE_N];

// What lies beyond M or K is zero, so that it adds nothing.
void fetchA(uint buffered, uint kTile)
{
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * TILE_K; i += THREADS) {
        const uint row = gl_WorkGroupID.y * TILE_M + i / TILE_K;
        const uint k = kTile * TILE_K + i % TILE_K;
        float16_t value = float16_t(0.0);
        if (row < M && k < K) {
            value = a[row * K + k];
        }
        tileA[buffered * TILE_M * TILE_K + i] = value;
    }
}

void fetchB(uint buffered, uint kTile)
{
    const uint start = (gl_WorkGroupID.x * numKTiles + kTile) * TILE_K * TILE_N;
    for (uint i = gl_LocalInvocationIndex; i < TILE_K * TILE_N; i += THREADS) {
        tileB[buffered * TILE_K * TILE_N + i] = b[start + i];
    }
}

void main()
{
    const uint firstRow = gl_SubgroupID * ROWS * CM_M;

    coopmat<float, gl_ScopeSubgroup, CM_M, CM_N, gl_MatrixUseAccumulator> acc[ROWS][COLS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint n = 0; n < COLS; ++n) {
            acc[r][n] = coopmat<float, gl_ScopeSubgroup, CM_M, CM_N, gl_MatrixUseAccumulator>(0.0);
        }
    }

    fetchA(0, 0);
    fetchB(0, 0);
    barrier();

    for (uint kTile = 0; kTile < numKTiles; ++kTile) {
        const uint current = kTile & 1;
        if (kTile + 1 < numKTiles) {
            fetchA(current ^ 1, kTile + 1);
            fetchB(current ^ 1, kTile + 1);
        }

        [[unroll]] for (uint step = 0; step < STEPS; ++step) {
            coopmat<float16_t, gl_ScopeSubgroup, CM_M, CM_K, gl_MatrixUseA> ma[ROWS];
            coopmat<float16_t, gl_ScopeSubgroup, CM_K, CM_N, gl_MatrixUseB> mb;
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                coopMatLoad(ma[r], tileA, (current * TILE_M + firstRow + r * CM_M) * TILE_K + step * CM_K, TILE_K,
                    gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint n = 0; n < COLS; ++n) {
                coopMatLoad(mb, tileB, (current * TILE_K + step * CM_K) * TILE_N + n * CM_N, TILE_N,
                    gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    acc[r][n] = coopMatMulAdd(ma[r], mb, acc[r][n]);
                }
            }
        }
        barrier();
    }

    const uint row0 = gl_WorkGroupID.y * TILE_M;
    const uint col0 = gl_WorkGroupID.x * TILE_N;
    if (row0 + TILE_M <= M && col0 + TILE_N <= N) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            [[unroll]] for (uint n = 0; n < COLS; ++n) {
                coopMatStore(acc[r][n], c, (row0 + firstRow + r * CM_M) * N + col0 + n * CM_N, N,
                    gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        return;
    }

    // The tile hangs over an edge: through shared memory, then only what exists.
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint n = 0; n < COLS; ++n) {
            coopMatStore(acc[r][n], tileC, (firstRow + r * CM_M) * TILE_N + n * CM_N, TILE_N,
                gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * TILE_N; i += THREADS) {
        const uint row = row0 + i / TILE_N;
        const uint col = col0 + i % TILE_N;
        if (row < M && col < N) {
            c[row * N + col] = tileC[i];
        }
    }
}
