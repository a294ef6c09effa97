// D = A * B with subgroup-scope matrices: VK_KHR_cooperative_matrix, written by hand for speed.
//
// The operands are those of matmul_nv2.comp. A workgroup makes one BM x BN tile of D, each of its subgroups a WM x WN part
// of that. Slices of A and B, BK wide, go through shared memory in the working type: while one is multiplied, the next is on its
// way from memory into registers. With STAGES = 2 there are two slices in shared memory and one barrier for each.
//
// k, the strides and the offsets are multiples of 8 (A_Q4_0, A_Q8_0: of 32; A_Q4_K: of 256), BK of 32. Invocations fetch 16
// elements of blocks and 8 others at a time.
//
// Macros: A_F16, A_BF16, A_Q4_0, A_Q8_0 or A_Q4_K; SUM is the type of the accumulator.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#ifdef A_BF16
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#else
#define HALF float16_t
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 256;
layout(constant_id = 1) const uint BM = 128;
layout(constant_id = 2) const uint BN = 128;
layout(constant_id = 3) const uint BK = 32;
layout(constant_id = 4) const uint WM = 64;
layout(constant_id = 5) const uint WN = 32;
layout(constant_id = 6) const uint STAGES = 2;
// The device's matrices.
layout(constant_id = 7) const uint TM = 16;
layout(constant_id = 8) const uint TN = 16;
layout(constant_id = 9) const uint TK = 16;

#include "operands.glsl"

// Rows of eight elements in a uvec4; one more keeps the rows in different banks.
const uint PITCH = BK / 8 + 1;
const uint SLICE_A = BM * PITCH;
const uint SLICE_B = BN * PITCH;
shared uvec4 slices_a[STAGES * SLICE_A];
shared uvec4 slices_b[STAGES * SLICE_B];

const uint ROWS = WM / TM;
const uint COLUMNS = WN / TN;

void put_a(uint unit, Piece piece, uint slice) {
    const uint per_row = BK / UNIT;
    uvec4 groups[UNIT / 8];
    expand(piece, groups);
    [[unroll]] for (uint i = 0; i < UNIT / 8; i++) {
        slices_a[slice + unit / per_row * PITCH + place(unit % per_row, i)] = groups[i];
    }
}

void put_b(uint unit, uvec4 piece, uint slice) {
    const uint per_row = BK / 8;
    slices_b[slice + unit / per_row * PITCH + unit % per_row] = piece;
}

void put(uint stage) {
    [[unroll]] for (uint i = 0; i < EACH_A; i++) {
        uint unit = unit_of(i, BK / UNIT);
        if (EACH_A * INVOCATIONS == UNITS_A || unit < UNITS_A) {
            put_a(unit, pieces_a[i], stage * SLICE_A);
        }
    }
    [[unroll]] for (uint i = 0; i < EACH_B; i++) {
        uint unit = unit_of(i, BK / 8);
        if (EACH_B * INVOCATIONS == UNITS_B || unit < UNITS_B) {
            put_b(unit, pieces_b[i], stage * SLICE_B);
        }
    }
}

coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS][COLUMNS];

void multiply(uint stage, uint row, uint column) {
    [[unroll]] for (uint at = 0; at < BK; at += TK) {
        coopmat<HALF, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> left[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            coopMatLoad(left[i], slices_a, stage * SLICE_A + (row + i * TM) * PITCH + at / 8, PITCH,
                        gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            coopmat<HALF, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> right;
            coopMatLoad(right, slices_b, stage * SLICE_B + (column + j * TN) * PITCH + at / 8, PITCH,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0; i < ROWS; i++) {
                sums[i][j] = coopMatMulAdd(left[i], right, sums[i][j]);
            }
        }
    }
}

// A tile that hangs over the edge of D goes through shared memory: the subgroup's part of slices_a, which nobody reads any more.
void store_at_edge(coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> result, uint row, uint column) {
    const uint words = TM * TN / 4;
    uint mine = gl_SubgroupID * words;
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    coopMatStore(result, slices_a, mine, TM / 4, gl_CooperativeMatrixLayoutColumnMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint i = gl_SubgroupInvocationID; i < TM * TN; i += gl_SubgroupSize) {
        uint r = row + i % TM;
        uint c = column + i / TM;
        if (r < m && c < n) {
            d[c * stride_d + r] = uintBitsToFloat(slices_a[mine + i / 4][i % 4]);
        }
    }
}

void main() {
    first_row = gl_WorkGroupID.x * BM;
    first_column = gl_WorkGroupID.y * BN;
    uint row = gl_SubgroupID % (BM / WM) * WM;
    uint column = gl_SubgroupID / (BM / WM) * WN;
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            sums[i][j] = coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
        }
    }

    fetch(0);
    if (STAGES == 1) {
        for (uint at = 0; at < k; at += BK) {
            barrier();
            put(0);
            barrier();
            if (at + BK < k) {
                fetch(at + BK);
            }
            multiply(0, row, column);
        }
    } else {
        put(0);
        barrier();
        uint stage = 0;
        for (uint at = 0; at < k; at += BK) {
            bool more = at + BK < k;
            if (more) {
                fetch(at + BK);
            }
            multiply(stage, row, column);
            stage ^= 1;
            if (more) {
                put(stage);
            }
            barrier();
        }
    }

    // Slices are free for `store_at_edge` once nobody multiplies any more.
    bool inside = first_row + BM <= m && first_column + BN <= n;
    if (!inside && STAGES == 1) {
        barrier();
    }
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> result =
                coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(sums[i][j]);
            uint r = first_row + row + i * TM;
            uint c = first_column + column + j * TN;
            if (inside) {
                coopMatStore(result, d, c * stride_d + r, stride_d, gl_CooperativeMatrixLayoutColumnMajor);
            } else {
                store_at_edge(result, r, c);
            }
        }
    }
}
