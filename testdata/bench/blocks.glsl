// Block formats of quantised numbers, as ggml lays them out.

struct Q4_0 { // 32 elements
    float16_t scale;
    uint16_t quants[8]; // low halves of the bytes: elements 0 to 15; high halves: 16 to 31
};

struct Q8_0 { // 32 elements
    float16_t scale;
    uint16_t quants[16]; // signed bytes
};

struct Q4_K { // 256 elements
    f16vec2 scales; // of the 6-bit scales, of the 6-bit minima
    uint packed[3]; // eight of each
    uint quants[32]; // 32 bytes for each 64 elements: low halves are the first 32
};

// Scale and minimum of one of the eight parts of a block; `packed` are the block's.
f16vec2 q4_k_part(f16vec2 scales, uvec3 packed, uint part) {
    uint shift = 8 * (part & 3);
    uint low = part < 4 ? packed.x >> shift & 63 : (packed.z >> shift & 15) | (packed.x >> shift & 192) >> 2;
    uint high = part < 4 ? packed.y >> shift & 63 : (packed.z >> shift + 4 & 15) | (packed.y >> shift & 192) >> 2;
    return scales * f16vec2(float16_t(low), float16_t(high));
}
