// D = A * B without matrices, written by hand for speed: each invocation makes 8 x 8 elements of D in registers.
//
// The operands are those of matmul_nv2.comp. Slices of A and B, BK wide, go through shared memory, turned so that what an invocation
// reads for one k are neighbours; while one is multiplied, the next is on its way from memory into registers.
// Without PACKED everything is f32, with it f16 in pairs.
//
// What matmul_khr.comp says of k, strides and offsets holds here. There are BM * BN / 64 invocations, a multiple of 32.
//
// Macros: A_F16, A_BF16, A_Q4_0, A_Q8_0 or A_Q4_K; PACKED.
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 256;
layout(constant_id = 1) const uint BM = 128;
layout(constant_id = 2) const uint BN = 128;
layout(constant_id = 3) const uint BK = 16;
layout(constant_id = 6) const uint STAGES = 2;

#ifdef PACKED
#define PAIRS
#endif
#include "operands.glsl"

// One row of a slice holds one k: of all BM (BN) elements, 16 bytes in a word.
#ifdef PACKED
#define WORD uvec4
const uint PER_WORD = 8;
#else
#define WORD vec4
const uint PER_WORD = 4;
#endif
// Rows begin in different banks, for those who write.
const uint PITCH_A = BM / PER_WORD + 1;
const uint PITCH_B = BN / PER_WORD + 1;
const uint SLICE_A = BK * PITCH_A;
const uint SLICE_B = BK * PITCH_B;
shared WORD slices_a[STAGES * SLICE_A];
shared WORD slices_b[STAGES * SLICE_B];

// Eight steps in k are written out; all of them would not stay in the instruction cache.
#define EACH_K(at)                                                                                                     \
    [[dont_unroll]] for (uint outer = 0; outer < BK; outer += 8)                                                       \
        [[unroll]] for (uint at = outer; at < outer + 8; at++)

#ifdef PACKED

// Two rows of a slice of eight k each: every k gets a pair.
#define TURN(slices, slice, pitch, row, group, one, other)                                                             \
    [[unroll]] for (uint word = 0; word < 4; word++) {                                                                 \
        uint to = slice + (group * 8 + word * 2) * pitch + row / 8;                                                    \
        slices[to][row / 2 % 4] = one[word] & 0xffff | other[word] << 16;                                              \
        slices[to + pitch][row / 2 % 4] = one[word] >> 16 | other[word] & 0xffff0000;                                  \
    }

void put(uint stage) {
    [[unroll]] for (uint i = 0; i < EACH_A; i += 2) {
        uint unit = unit_of(i, BK / UNIT);
        if (EACH_A * INVOCATIONS == UNITS_A || unit < UNITS_A) {
            uvec4 one[UNIT / 8], other[UNIT / 8];
            expand(pieces_a[i], one);
            expand(pieces_a[i + 1], other);
            uint row = unit / (BK / UNIT);
            [[unroll]] for (uint j = 0; j < UNIT / 8; j++) {
                uint group = place(unit % (BK / UNIT), j);
                TURN(slices_a, stage * SLICE_A, PITCH_A, row, group, one[j], other[j])
            }
        }
    }
    [[unroll]] for (uint i = 0; i < EACH_B; i += 2) {
        uint unit = unit_of(i, BK / 8);
        if (EACH_B * INVOCATIONS == UNITS_B || unit < UNITS_B) {
            uint row = unit / (BK / 8);
            uint group = unit % (BK / 8);
            TURN(slices_b, stage * SLICE_B, PITCH_B, row, group, pieces_b[i], pieces_b[i + 1])
        }
    }
}

f16vec2 sums[8][4];

void multiply(uint stage, uint y, uint x) {
    EACH_K(at) {
        uvec4 left = slices_a[stage * SLICE_A + at * PITCH_A + y];
        uvec4 right = slices_b[stage * SLICE_B + at * PITCH_B + x];
        [[unroll]] for (uint j = 0; j < 4; j++) {
            f16vec2 pair = unpackFloat2x16(right[j]);
            [[unroll]] for (uint i = 0; i < 4; i++) {
                f16vec2 rows = unpackFloat2x16(left[i]);
                sums[2 * j][i] = fma(rows, pair.xx, sums[2 * j][i]);
                sums[2 * j + 1][i] = fma(rows, pair.yy, sums[2 * j + 1][i]);
            }
        }
    }
}

uint row_of(uint y, uint i) {
    return y * 8 + i;
}

uint column_of(uint x, uint j) {
    return x * 8 + j;
}

float sum_of(uint i, uint j) {
    return float(sums[j][i / 2][i % 2]);
}

const f16vec2 ZERO = f16vec2(0.0hf);
const uint PARTS = 4;

#else

// The element at an even, or odd, place of a pair.
float low(uint pair) {
#ifdef A_BF16
    return uintBitsToFloat(pair << 16);
#else
    return unpackHalf2x16(pair).x;
#endif
}

float high(uint pair) {
#ifdef A_BF16
    return uintBitsToFloat(pair & 0xffff0000);
#else
    return unpackHalf2x16(pair).y;
#endif
}

#define TURN(slices, slice, pitch, row, group, eight)                                                                  \
    [[unroll]] for (uint word = 0; word < 4; word++) {                                                                 \
        uint to = slice + (group * 8 + word * 2) * pitch + row / 4;                                                    \
        slices[to][row % 4] = low(eight[word]);                                                                        \
        slices[to + pitch][row % 4] = high(eight[word]);                                                               \
    }

void put(uint stage) {
    [[unroll]] for (uint i = 0; i < EACH_A; i++) {
        uint unit = unit_of(i, BK / UNIT);
        if (EACH_A * INVOCATIONS == UNITS_A || unit < UNITS_A) {
            uvec4 groups[UNIT / 8];
            expand(pieces_a[i], groups);
            uint row = unit / (BK / UNIT);
            [[unroll]] for (uint j = 0; j < UNIT / 8; j++) {
                uint group = place(unit % (BK / UNIT), j);
                TURN(slices_a, stage * SLICE_A, PITCH_A, row, group, groups[j])
            }
        }
    }
    [[unroll]] for (uint i = 0; i < EACH_B; i++) {
        uint unit = unit_of(i, BK / 8);
        if (EACH_B * INVOCATIONS == UNITS_B || unit < UNITS_B) {
            uint row = unit / (BK / 8);
            uint group = unit % (BK / 8);
            TURN(slices_b, stage * SLICE_B, PITCH_B, row, group, pieces_b[i])
        }
    }
}

// Four rows and four rows half a tile further: neighbours read neighbouring words.
vec4 sums[8][2];

void multiply(uint stage, uint y, uint x) {
    EACH_K(at) {
        uint from = stage * SLICE_A + at * PITCH_A + y;
        vec4 upper = slices_a[from];
        vec4 lower = slices_a[from + BM / 8];
        [[unroll]] for (uint side = 0; side < 2; side++) {
            vec4 right = slices_b[stage * SLICE_B + at * PITCH_B + x + side * (BN / 8)];
            [[unroll]] for (uint j = 0; j < 4; j++) {
                sums[side * 4 + j][0] = fma(upper, vec4(right[j]), sums[side * 4 + j][0]);
                sums[side * 4 + j][1] = fma(lower, vec4(right[j]), sums[side * 4 + j][1]);
            }
        }
    }
}

uint row_of(uint y, uint i) {
    return y * 4 + i % 4 + i / 4 * (BM / 2);
}

uint column_of(uint x, uint j) {
    return x * 4 + j % 4 + j / 4 * (BN / 2);
}

float sum_of(uint i, uint j) {
    return sums[j][i / 4][i % 4];
}

const vec4 ZERO = vec4(0.0);
const uint PARTS = 2;

#endif

void main() {
    first_row = gl_WorkGroupID.x * BM;
    first_column = gl_WorkGroupID.y * BN;
    // 32 neighbours make 4 x 8 of the parts: few different words are read at a time.
    uint block = gl_LocalInvocationIndex / 32;
    uint inside = gl_LocalInvocationIndex % 32;
    uint y = block / (BN / 64) * 4 + inside / 8;
    uint x = block % (BN / 64) * 8 + inside % 8;
    [[unroll]] for (uint j = 0; j < 8; j++) {
        [[unroll]] for (uint i = 0; i < PARTS; i++) {
            sums[j][i] = ZERO;
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
            multiply(0, y, x);
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
            multiply(stage, y, x);
            stage ^= 1;
            if (more) {
                put(stage);
            }
            barrier();
        }
    }

    [[unroll]] for (uint j = 0; j < 8; j++) {
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint row = first_row + row_of(y, i);
            uint column = first_column + column_of(x, j);
            if (row < m && column < n) {
                d[column * stride_d + row] = sum_of(i, j);
            }
        }
    }
}
