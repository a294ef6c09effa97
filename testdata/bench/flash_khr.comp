// O = softmax(scale * Q * transpose(K)) * V with subgroup-scope matrices: VK_KHR_cooperative_matrix, written by hand for speed.
//
// The operands are those of flash_nv2.comp. Each subgroup makes ROWS of O, which stay in its registers; K and V go through shared
// memory, BC rows at a time, for all of them. Scores leave the matrices through shared memory: an invocation (or several) sees a
// whole row there, keeps its maximum and sum, and puts the weights back as f16. What a row of O is multiplied with gets into a
// matrix by a load with stride 0.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 1) const uint BR = 64;
layout(constant_id = 2) const uint BC = 64;
layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
// Whether the next rows of K and V wait in registers.
layout(constant_id = 5) const bool AHEAD = true;
// The device's matrices are SIDE x SIDE x SIDE.
layout(constant_id = 6) const uint SIDE = 16;

layout(push_constant) uniform Sizes {
    uint n, kv, heads, kv_heads;
    float scale;
};

layout(set = 0, binding = 0) readonly buffer Q { uvec4 q[]; };
layout(set = 0, binding = 1) readonly buffer K { uvec4 k[]; };
layout(set = 0, binding = 2) readonly buffer V { uvec4 v[]; };
layout(set = 0, binding = 3) writeonly buffer O { float o[]; };

const uint SUBGROUPS = INVOCATIONS / SUBGROUP;
const uint ROWS = BR / SUBGROUPS;
const uint TALL = ROWS / SIDE;
const uint WIDE = BC / SIDE;
const uint DEEP = HEAD / SIDE;
// Neighbours that share a row of scores.
const uint SHARERS = SUBGROUP / ROWS;

// Rows of K and V, eight elements in a word, in different banks.
const uint PITCH = HEAD / 8 + 1;
shared uvec4 keys[BC * PITCH];
shared uvec4 values[BC * PITCH];
// Rows of scores, four in a word, then of weights, eight in a word; before that, rows of Q; in the end, parts of O.
const uint SCORES_PITCH = BC / 4 + 1;
const uint WEIGHTS_PITCH = BC / 8 + 1;
shared vec4 scores[SUBGROUPS * ROWS * SCORES_PITCH];
shared uvec4 weights[SUBGROUPS * ROWS * WEIGHTS_PITCH];
shared float factors[SUBGROUPS * ROWS];

const float LOWEST = -1e30;

const uint UNITS = BC * HEAD / 8;
const uint EACH = (UNITS + INVOCATIONS - 1) / INVOCATIONS;
uvec4 next_keys[AHEAD ? EACH : 1];
uvec4 next_values[AHEAD ? EACH : 1];

#define ACC coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseB>

LEFT queries[TALL][DEEP];
ACC result[TALL][DEEP];

uint kv_from;

// Rows beyond the end are read from the last one: their weight is 0.
uint place_of(uint unit, uint first) {
    const uint per_row = HEAD / 8;
    return kv_from + min(first + unit / per_row, kv - 1) * per_row + unit % per_row;
}

void put(uint unit, uvec4 key, uvec4 value) {
    const uint per_row = HEAD / 8;
    uint to = unit / per_row * PITCH + unit % per_row;
    keys[to] = key;
    values[to] = value;
}

void fetch(uint first) {
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint unit = i * INVOCATIONS + gl_LocalInvocationIndex;
        if (UNITS % INVOCATIONS == 0 || unit < UNITS) {
            uint from = place_of(unit, first);
            next_keys[i] = k[from];
            next_values[i] = v[from];
        }
    }
}

void put_next() {
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint unit = i * INVOCATIONS + gl_LocalInvocationIndex;
        if (UNITS % INVOCATIONS == 0 || unit < UNITS) {
            put(unit, next_keys[i], next_values[i]);
        }
    }
}

void copy(uint first) {
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint unit = i * INVOCATIONS + gl_LocalInvocationIndex;
        if (UNITS % INVOCATIONS == 0 || unit < UNITS) {
            uint from = place_of(unit, first);
            put(unit, k[from], v[from]);
        }
    }
}

void subgroup_barrier() {
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

// The rows of Q come through the place of the keys, as many as that has at a time.
void load_queries(uint row) {
    const uint per_row = HEAD / 8;
    uint from = gl_WorkGroupID.y * n * per_row;
    [[unroll]] for (uint part = 0; part < BR; part += BC) {
        [[unroll]] for (uint unit = gl_LocalInvocationIndex; unit < UNITS; unit += INVOCATIONS) {
            uint r = min(row + part + unit / per_row, n - 1);
            keys[unit / per_row * PITCH + unit % per_row] = q[from + r * per_row + unit % per_row];
        }
        barrier();
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            uint mine = gl_SubgroupID * ROWS + i * SIDE;
            if (mine >= part && mine < part + BC) {
                [[unroll]] for (uint j = 0; j < DEEP; j++) {
                    coopMatLoad(queries[i][j], keys, (mine - part) * PITCH + j * (SIDE / 8), PITCH,
                                gl_CooperativeMatrixLayoutRowMajor);
                }
            }
        }
        barrier();
    }
}

// Multiplies the rows of O with the factors in shared memory.
void multiply_rows() {
    [[unroll]] for (uint i = 0; i < TALL; i++) {
        ACC by;
        coopMatLoad(by, factors, gl_SubgroupID * ROWS + i * SIDE, 0, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint j = 0; j < DEEP; j++) {
            result[i][j] = result[i][j] * by;
        }
    }
}

void main() {
    uint row = gl_WorkGroupID.x * BR;
    kv_from = gl_WorkGroupID.y / (heads / kv_heads) * kv * (HEAD / 8);
    load_queries(row);
    [[unroll]] for (uint i = 0; i < TALL; i++) {
        [[unroll]] for (uint j = 0; j < DEEP; j++) {
            result[i][j] = ACC(0.0);
        }
    }
    uint of_scores = gl_SubgroupID * ROWS * SCORES_PITCH;
    uint of_weights = gl_SubgroupID * ROWS * WEIGHTS_PITCH;
    uint my_row = gl_SubgroupInvocationID / SHARERS;
    uint my_part = gl_SubgroupInvocationID % SHARERS;
    float by = scale * 1.4426950408889634;
    float maximum = LOWEST;
    float sum = 0.0;

    if (AHEAD) {
        fetch(0);
    }
    for (uint first = 0; first < kv; first += BC) {
        if (AHEAD) {
            put_next();
        } else {
            copy(first);
        }
        barrier();
        if (AHEAD && first + BC < kv) {
            fetch(first + BC);
        }

        [[unroll]] for (uint c = 0; c < WIDE; c++) {
            ACC products[TALL];
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                products[i] = ACC(0.0);
            }
            [[unroll]] for (uint j = 0; j < DEEP; j++) {
                RIGHT key;
                coopMatLoad(key, keys, c * SIDE * PITCH + j * (SIDE / 8), PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    products[i] = coopMatMulAdd(queries[i][j], key, products[i]);
                }
            }
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                coopMatStore(products[i], scores, of_scores + i * SIDE * SCORES_PITCH + c * (SIDE / 4), SCORES_PITCH,
                             gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        subgroup_barrier();

        // Words of four scores; those who share a row take turns.
        const uint mine = BC / 4 / SHARERS;
        vec4 x[mine];
        float most = maximum;
        [[unroll]] for (uint i = 0; i < mine; i++) {
            uint word = i * SHARERS + my_part;
            x[i] = scores[of_scores + my_row * SCORES_PITCH + word] * by;
            uint left = kv - min(kv, first + word * 4);
            if (left < 4) {
                x[i] = mix(vec4(LOWEST), x[i], lessThan(uvec4(0, 1, 2, 3), uvec4(left)));
            }
            most = max(most, max(max(x[i].x, x[i].y), max(x[i].z, x[i].w)));
        }
        [[unroll]] for (uint i = 1; i < SHARERS; i *= 2) {
            most = max(most, subgroupShuffleXor(most, i));
        }
        float factor = exp2(maximum - most);
        float total = 0.0;
        [[unroll]] for (uint i = 0; i < mine; i++) {
            uint word = i * SHARERS + my_part;
            vec4 weight = exp2(x[i] - most);
            total += weight.x + weight.y + weight.z + weight.w;
            uint to = of_weights + my_row * WEIGHTS_PITCH + word / 2;
            weights[to][word % 2 * 2] = packHalf2x16(weight.xy);
            weights[to][word % 2 * 2 + 1] = packHalf2x16(weight.zw);
        }
        sum = sum * factor + total;
        maximum = most;
        if (my_part == 0) {
            factors[gl_SubgroupID * ROWS + my_row] = factor;
        }
        subgroup_barrier();

        multiply_rows();
        [[unroll]] for (uint c = 0; c < WIDE; c++) {
            LEFT weight[TALL];
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                coopMatLoad(weight[i], weights, of_weights + i * SIDE * WEIGHTS_PITCH + c * (SIDE / 8), WEIGHTS_PITCH,
                            gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0; j < DEEP; j++) {
                RIGHT value;
                coopMatLoad(value, values, c * SIDE * PITCH + j * (SIDE / 8), PITCH, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    result[i][j] = coopMatMulAdd(weight[i], value, result[i][j]);
                }
            }
        }
        // Who is done with these rows of K and V, and with the scores of its own, may overwrite them.
        barrier();
    }

    [[unroll]] for (uint i = 1; i < SHARERS; i *= 2) {
        sum += subgroupShuffleXor(sum, i);
    }
    if (my_part == 0) {
        factors[gl_SubgroupID * ROWS + my_row] = 1.0 / sum;
    }
    subgroup_barrier();
    multiply_rows();

    uint to = gl_WorkGroupID.y * n * HEAD;
    [[unroll]] for (uint i = 0; i < TALL; i++) {
        uint r = row + gl_SubgroupID * ROWS + i * SIDE;
        [[unroll]] for (uint j = 0; j < DEEP; j++) {
            if (r + SIDE <= n) {
                coopMatStore(result[i][j], o, to + r * HEAD + j * SIDE, HEAD, gl_CooperativeMatrixLayoutRowMajor);
            } else {
                subgroup_barrier();
                coopMatStore(result[i][j], scores, of_scores, SIDE / 4, gl_CooperativeMatrixLayoutRowMajor);
                subgroup_barrier();
                for (uint at = gl_SubgroupInvocationID; at < SIDE * SIDE; at += SUBGROUP) {
                    if (r + at / SIDE < n) {
                        o[to + (r + at / SIDE) * HEAD + j * SIDE + at % SIDE] = scores[of_scores + at / 4][at % 4];
                    }
                }
            }
        }
    }
}
