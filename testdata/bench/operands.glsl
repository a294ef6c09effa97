// The operands of the hand-written multiplications, and how an invocation fetches parts of them into registers.
//
// A part of A is UNIT neighbours in k: a PIECE as it lies in memory, which `expand` makes into UNIT / 8 groups of eight elements in
// the working type. Includers define BM, BN, BK, INVOCATIONS and one of A_F16, A_BF16, A_Q4_0, A_Q8_0 and A_Q4_K.

#include "blocks.glsl"

layout(push_constant) uniform Sizes {
    uint m, n, k;
    uint stride_a, stride_b, stride_d; // in elements
};

#if defined(A_Q4_0)
#define ELEMENT Q4_0
#define BLOCK 32
#define UNIT 16
#elif defined(A_Q8_0)
#define ELEMENT Q8_0
#define BLOCK 32
#define UNIT 16
#elif defined(A_Q4_K)
#define ELEMENT Q4_K
#define BLOCK 256
#define UNIT 16
#else
#define ELEMENT uvec4
#define BLOCK 8
#define UNIT 8
#endif

layout(set = 0, binding = 0) readonly buffer A { ELEMENT a[]; };
layout(set = 0, binding = 1) readonly buffer B { uvec4 b[]; };
layout(set = 0, binding = 2) writeonly buffer D { float d[]; };

uint first_row;
uint first_column;

#if UNIT == 16
struct Piece {
    uvec4 quants;
    f16vec2 scales;
};
#else
#define Piece uvec4
#endif

Piece fetch_a(uint unit, uint at) {
    const uint per_row = BK / UNIT;
    uint row = min(first_row + unit / per_row, m - 1);
    uint column = at + unit % per_row * UNIT;
    uint from = (row * stride_a + column) / BLOCK;
#if defined(A_Q4_0)
    // Bytes 0 to 7, or 8 to 15: elements 0 to 7 and 16 to 23, or 8 to 15 and 24 to 31.
    uint j = column / 4 & 4;
    Piece piece;
    piece.quants.x = pack32(u16vec2(a[from].quants[j], a[from].quants[j + 1]));
    piece.quants.y = pack32(u16vec2(a[from].quants[j + 2], a[from].quants[j + 3]));
    piece.scales.x = column < k ? a[from].scale : 0.0hf;
    return piece;
#elif defined(A_Q8_0)
    uint j = column / 2 & 8;
    Piece piece;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        piece.quants[i] = pack32(u16vec2(a[from].quants[j + 2 * i], a[from].quants[j + 2 * i + 1]));
    }
    piece.scales.x = column < k ? a[from].scale : 0.0hf;
    return piece;
#elif defined(A_Q4_K)
    uint part = column / 32 & 7;
    uint j = part / 2 * 8 + (column / 16 & 1) * 4;
    uint shift = 4 * (part & 1);
    Piece piece;
    piece.quants = uvec4(a[from].quants[j], a[from].quants[j + 1], a[from].quants[j + 2], a[from].quants[j + 3]);
    piece.quants = piece.quants >> shift & 0x0f0f0f0f;
    uvec3 packed = uvec3(a[from].packed[0], a[from].packed[1], a[from].packed[2]);
    piece.scales = column < k ? q4_k_part(a[from].scales, packed, part) : f16vec2(0.0hf);
    return piece;
#else
    return column < k ? a[from] : uvec4(0);
#endif
}

#if UNIT == 16
// The halves of 1024 + x for the bytes x at the even, or odd, places of a word. Between 1024 and 2048 an f16's last bit is 1.
f16vec4 from_bytes(uint bytes) {
    uint even = (bytes & 0xff) | (bytes & 0xff00) << 8 | 0x64006400;
    uint odd = (bytes >> 16 & 0xff) | (bytes >> 8 & 0xff0000) | 0x64006400;
    return f16vec4(unpackFloat2x16(even), unpackFloat2x16(odd));
}

uvec2 words(f16vec4 values) {
    return uvec2(packFloat2x16(values.xy), packFloat2x16(values.zw));
}
#endif

// The elements of a piece, eight of them in each uvec4.
void expand(Piece piece, out uvec4 groups[UNIT / 8]) {
#if defined(A_Q4_0)
    uvec2 low = piece.quants.xy & 0x0f0f0f0f;
    uvec2 high = piece.quants.xy >> 4 & 0x0f0f0f0f;
    float16_t scale = piece.scales.x;
    groups[0] = uvec4(words((from_bytes(low.x) - 1032.0hf) * scale), words((from_bytes(low.y) - 1032.0hf) * scale));
    groups[1] = uvec4(words((from_bytes(high.x) - 1032.0hf) * scale), words((from_bytes(high.y) - 1032.0hf) * scale));
#elif defined(A_Q8_0)
    uvec4 quants = piece.quants ^ 0x80808080;
    float16_t scale = piece.scales.x;
    groups[0] =
        uvec4(words((from_bytes(quants.x) - 1152.0hf) * scale), words((from_bytes(quants.y) - 1152.0hf) * scale));
    groups[1] =
        uvec4(words((from_bytes(quants.z) - 1152.0hf) * scale), words((from_bytes(quants.w) - 1152.0hf) * scale));
#elif defined(A_Q4_K)
    f16vec4 scale = f16vec4(piece.scales.x);
    f16vec4 less = f16vec4(-piece.scales.y);
    groups[0] = uvec4(words(fma(from_bytes(piece.quants.x) - 1024.0hf, scale, less)),
                      words(fma(from_bytes(piece.quants.y) - 1024.0hf, scale, less)));
    groups[1] = uvec4(words(fma(from_bytes(piece.quants.z) - 1024.0hf, scale, less)),
                      words(fma(from_bytes(piece.quants.w) - 1024.0hf, scale, less)));
#else
    groups[0] = piece;
#endif
}

// Where in its row of the slice a group of eight goes, in groups.
uint place(uint part, uint group) {
#if defined(A_Q4_0)
    return part / 2 * 4 + (part & 1) + group * 2;
#else
    return part * (UNIT / 8) + group;
#endif
}

uvec4 fetch_b(uint unit, uint at) {
    const uint per_row = BK / 8;
    uint row = min(first_column + unit / per_row, n - 1);
    uint column = at + unit % per_row * 8;
    return column < k ? b[(row * stride_b + column) / 8] : uvec4(0);
}

const uint UNITS_A = BM * BK / UNIT;
const uint UNITS_B = BN * BK / 8;

// With PAIRS, an invocation fetches the same part of two rows that are neighbours, one after the other.
#ifdef PAIRS
const uint EACH_A = (UNITS_A / 2 + INVOCATIONS - 1) / INVOCATIONS * 2;
const uint EACH_B = (UNITS_B / 2 + INVOCATIONS - 1) / INVOCATIONS * 2;

uint unit_of(uint i, uint per_row) {
    uint pair = i / 2 * INVOCATIONS + gl_LocalInvocationIndex;
    return (pair / per_row * 2 + (i & 1)) * per_row + pair % per_row;
}
#else
const uint EACH_A = (UNITS_A + INVOCATIONS - 1) / INVOCATIONS;
const uint EACH_B = (UNITS_B + INVOCATIONS - 1) / INVOCATIONS;

uint unit_of(uint i, uint per_row) {
    return i * INVOCATIONS + gl_LocalInvocationIndex;
}
#endif

Piece pieces_a[EACH_A];
uvec4 pieces_b[EACH_B];

void fetch(uint at) {
    [[unroll]] for (uint i = 0; i < EACH_A; i++) {
        uint unit = unit_of(i, BK / UNIT);
        if (EACH_A * INVOCATIONS == UNITS_A || unit < UNITS_A) {
            pieces_a[i] = fetch_a(unit, at);
        }
    }
    [[unroll]] for (uint i = 0; i < EACH_B; i++) {
        uint unit = unit_of(i, BK / 8);
        if (EACH_B * INVOCATIONS == UNITS_B || unit < UNITS_B) {
            pieces_b[i] = fetch_b(unit, at);
        }
    }
}
