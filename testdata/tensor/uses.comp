// One matrix type for every use: arrays, phis, an accumulator that is multiplied, a constant and a load of two uses.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#pragma use_vulkan_memory_model
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint N = 8;
layout(constant_id = 1) const bool COL = false;
layout(set = 0, binding = 0) readonly buffer A { float16_t a[]; };
layout(set = 0, binding = 1) writeonly buffer D { float16_t d[]; };
layout(push_constant) uniform P { uint k; };
#define M fcoopmatNV<16, gl_ScopeSubgroup, N, N>
M both;
M twice(M x) { return x + x; }
void main() {
    M parts[3];
    for (uint i = 0; i < 3; i++) coopMatLoadNV(parts[i], a, i * 64, N, COL);
    M same;
    coopMatLoadNV(same, a, 192, N, !COL);
    M sum = M(0.0hf);
    sum = coopMatMulAddNV(same, same, sum);
    for (uint i = 0; i < k; i++) {
        M left = parts[i % 3];
        if (i == 1) left = twice(left); else left = left * 0.5hf;
        sum = coopMatMulAddNV(left, M(0.5hf), sum);
    }
    both = coopMatMulAddNV(M(0.25hf), sum * 0.125hf, sum);
    for (int i = 0; i < both.length(); i++) both[i] = both[i] + 1.0hf;
    both = coopMatMulAddNV(both * 0.0625hf, same, both);
    coopMatStoreNV(both, d, 0, N, false);
    coopMatStoreNV(parts[k % 3], d, 64, N, true);
}
