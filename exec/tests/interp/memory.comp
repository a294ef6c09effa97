// Layouts, pointers, atomics. binding 0: a block of mixed things, copied member by member to binding 1, transposed here and there.
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 8) in;
struct Inner { float16_t h; u8vec3 bytes; double d; };
layout(std430, binding = 0) readonly buffer I {
    uint counter;
    layout(row_major) mat2x3 rows;
    layout(column_major) mat2x3 columns;
    Inner inner[2];
    int64_t wide;
    vec3 tail[];
} i0;
layout(std430, binding = 1) buffer O {
    uint counter;
    layout(column_major) mat2x3 rows;
    layout(row_major) mat2x3 columns;
    Inner inner[2];
    int64_t wide;
    uint most;
    uint size;
    vec3 tail[];
} o0;
shared uint total;
void main()
{
    const uint lane = gl_LocalInvocationIndex;
    if (lane == 0) {
        total = 0;
        o0.rows = i0.rows;
        o0.columns = i0.columns;
        o0.inner = i0.inner;
        o0.wide = -i0.wide;
        o0.size = i0.tail.length();
        o0.rows[1][lane + 2] = 77.0;
        o0.columns[1].y = 78.0;
    }
    barrier();
    atomicAdd(total, lane + 1);
    atomicMax(o0.most, lane * 7 % 8);
    barrier();
    if (lane == 1) {
        o0.counter = i0.counter + total;
    }
    if (lane < i0.tail.length()) {
        o0.tail[lane] = i0.tail[lane].zyx;
    }
}
