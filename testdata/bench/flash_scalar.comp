// O = softmax(scale * Q * transpose(K)) * V without matrices, written by hand for speed.
//
// The operands are those of flash_nv2.comp. A workgroup makes BR rows of O; 64 rows of K and V go through shared memory at a time, 64
// columns wide. An invocation makes R x 8 scores and R x HEAD / 8 elements of O: eight neighbours share R rows. Products are
// summed up in pairs of f16, over 64 steps; what is longer than that in f32.
//
// There are BR / R * 8 invocations, in full subgroups of at least eight.
#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_clustered : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 64;
layout(constant_id = 1) const uint BR = 64;
layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint R = 8;

layout(push_constant) uniform Sizes {
    uint n, kv, heads, kv_heads;
    float scale;
};

layout(set = 0, binding = 0) readonly buffer Q { uvec4 q[]; };
layout(set = 0, binding = 1) readonly buffer K { uvec4 k[]; };
layout(set = 0, binding = 2) readonly buffer V { uvec4 v[]; };
layout(set = 0, binding = 3) writeonly buffer O { float o[]; };

const uint BC = 64;
const uint CHUNKS = HEAD / 64;

// One step in a row: four (eight) neighbours of the other direction in a word.
const uint PITCH_LEFT = BR / 4 + 2;
const uint PITCH_RIGHT = 64 / 8 + 1;
shared uvec2 turned_q[64 * PITCH_LEFT];
shared uvec2 turned_weights[64 * PITCH_LEFT];
shared uvec4 right[64 * PITCH_RIGHT];

const float LOWEST = -1e30;

uint index;
uint kv_from;

// 64 columns of Q's rows, turned: each invocation takes eight columns of two rows.
void put_q(uint row, uint chunk) {
    uint from = gl_WorkGroupID.y * n * (HEAD / 8);
    for (uint unit = index; unit < BR / 2 * 8; unit += INVOCATIONS) {
        uint pair = unit / 8;
        uint part = unit % 8;
        uvec4 one = q[from + min(row + pair * 2, n - 1) * (HEAD / 8) + chunk * 8 + part];
        uvec4 other = q[from + min(row + pair * 2 + 1, n - 1) * (HEAD / 8) + chunk * 8 + part];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint to = (part * 8 + i * 2) * PITCH_LEFT + pair / 2;
            turned_q[to][pair % 2] = one[i] & 0xffff | other[i] << 16;
            turned_q[to + PITCH_LEFT][pair % 2] = one[i] >> 16 | other[i] & 0xffff0000;
        }
    }
}

// 64 columns of K's rows, turned.
void put_k(uint first, uint chunk) {
    for (uint unit = index; unit < 32 * 8; unit += INVOCATIONS) {
        uint pair = unit / 8;
        uint part = unit % 8;
        uvec4 one = k[kv_from + min(first + pair * 2, kv - 1) * (HEAD / 8) + chunk * 8 + part];
        uvec4 other = k[kv_from + min(first + pair * 2 + 1, kv - 1) * (HEAD / 8) + chunk * 8 + part];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint to = (part * 8 + i * 2) * PITCH_RIGHT + pair / 4;
            right[to][pair % 4] = one[i] & 0xffff | other[i] << 16;
            right[to + PITCH_RIGHT][pair % 4] = one[i] >> 16 | other[i] & 0xffff0000;
        }
    }
}

// 64 columns of V's rows, as they are.
void put_v(uint first, uint chunk) {
    for (uint unit = index; unit < 64 * 8; unit += INVOCATIONS) {
        uint row = unit / 8;
        uint part = unit % 8;
        right[row * PITCH_RIGHT + part] = v[kv_from + min(first + row, kv - 1) * (HEAD / 8) + chunk * 8 + part];
    }
}

f16vec2 products[8][R / 2];

// Adds 64 steps of left (rows y * R ...) times right (columns x * 8 ...).
#define MULTIPLY(left)                                                                                                 \
    [[dont_unroll]] for (uint outer = 0; outer < 64; outer += 8)                                                       \
        [[unroll]] for (uint step = outer; step < outer + 8; step++) {                                                 \
            f16vec2 rows[R / 2];                                                                                       \
            [[unroll]] for (uint i = 0; i < R / 4; i++) {                                                              \
                uvec2 four = left[step * PITCH_LEFT + y * (R / 4) + i];                                                \
                rows[i * 2] = unpackFloat2x16(four.x);                                                                 \
                rows[i * 2 + 1] = unpackFloat2x16(four.y);                                                             \
            }                                                                                                          \
            uvec4 eight = right[step * PITCH_RIGHT + x];                                                               \
            [[unroll]] for (uint j = 0; j < 4; j++) {                                                                  \
                f16vec2 columns = unpackFloat2x16(eight[j]);                                                           \
                [[unroll]] for (uint i = 0; i < R / 2; i++) {                                                          \
                    products[2 * j][i] = fma(rows[i], columns.xx, products[2 * j][i]);                                 \
                    products[2 * j + 1][i] = fma(rows[i], columns.yy, products[2 * j + 1][i]);                         \
                }                                                                                                      \
            }                                                                                                          \
        }

void clear() {
    [[unroll]] for (uint j = 0; j < 8; j++) {
        [[unroll]] for (uint i = 0; i < R / 2; i++) {
            products[j][i] = f16vec2(0.0hf);
        }
    }
}

void main() {
    // Eight neighbours in a subgroup share their rows.
    index = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint x = index % 8;
    uint y = index / 8;
    uint row = gl_WorkGroupID.x * BR;
    kv_from = gl_WorkGroupID.y / (heads / kv_heads) * kv * (HEAD / 8);
    float by = scale * 1.4426950408889634;

    vec2 result[CHUNKS][8][R / 2];
    [[unroll]] for (uint chunk = 0; chunk < CHUNKS; chunk++) {
        [[unroll]] for (uint j = 0; j < 8; j++) {
            [[unroll]] for (uint i = 0; i < R / 2; i++) {
                result[chunk][j][i] = vec2(0.0);
            }
        }
    }
    vec2 maxima[R / 2];
    vec2 sums[R / 2];
    [[unroll]] for (uint i = 0; i < R / 2; i++) {
        maxima[i] = vec2(LOWEST);
        sums[i] = vec2(0.0);
    }
    if (CHUNKS == 1) {
        put_q(row, 0);
    }

    for (uint first = 0; first < kv; first += BC) {
        vec2 scores[8][R / 2];
        [[unroll]] for (uint j = 0; j < 8; j++) {
            [[unroll]] for (uint i = 0; i < R / 2; i++) {
                scores[j][i] = vec2(0.0);
            }
        }
        [[unroll]] for (uint chunk = 0; chunk < CHUNKS; chunk++) {
            barrier();
            if (CHUNKS > 1) {
                put_q(row, chunk);
            }
            put_k(first, chunk);
            barrier();
            clear();
            MULTIPLY(turned_q)
            [[unroll]] for (uint j = 0; j < 8; j++) {
                [[unroll]] for (uint i = 0; i < R / 2; i++) {
                    scores[j][i] += vec2(products[j][i]);
                }
            }
        }

        vec2 factors[R / 2];
        [[unroll]] for (uint i = 0; i < R / 2; i++) {
            vec2 most = maxima[i];
            [[unroll]] for (uint j = 0; j < 8; j++) {
                scores[j][i] = first + x * 8 + j < kv ? scores[j][i] * by : vec2(LOWEST);
                most = max(most, scores[j][i]);
            }
            most = subgroupClusteredMax(most, 8);
            factors[i] = exp2(maxima[i] - most);
            maxima[i] = most;
            vec2 total = vec2(0.0);
            [[unroll]] for (uint j = 0; j < 8; j++) {
                vec2 weight = exp2(scores[j][i] - most);
                total += weight;
                turned_weights[(x * 8 + j) * PITCH_LEFT + y * (R / 4) + i / 2][i % 2] = packHalf2x16(weight);
            }
            sums[i] = sums[i] * factors[i] + total;
        }

        [[unroll]] for (uint chunk = 0; chunk < CHUNKS; chunk++) {
            barrier();
            put_v(first, chunk);
            barrier();
            clear();
            MULTIPLY(turned_weights)
            [[unroll]] for (uint j = 0; j < 8; j++) {
                [[unroll]] for (uint i = 0; i < R / 2; i++) {
                    result[chunk][j][i] = fma(result[chunk][j][i], factors[i], vec2(products[j][i]));
                }
            }
        }
    }

    [[unroll]] for (uint i = 0; i < R / 2; i++) {
        vec2 inverse = 1.0 / subgroupClusteredAdd(sums[i], 8);
        [[unroll]] for (uint which = 0; which < 2; which++) {
            uint r = row + y * R + i * 2 + which;
            if (r < n) {
                uint to = (gl_WorkGroupID.y * n + r) * HEAD + x * 8;
                [[unroll]] for (uint chunk = 0; chunk < CHUNKS; chunk++) {
                    [[unroll]] for (uint j = 0; j < 8; j++) {
                        o[to + chunk * 64 + j] = result[chunk][j][i][which] * inverse[which];
                    }
                }
            }
        }
    }
}
