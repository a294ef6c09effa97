#version 460
// Brings rows to their maximum, and uses the result as a left factor: a reduction and a change of use in a loop.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require

layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer B { float16_t b[]; };
layout(binding = 1) buffer D { float d[]; };

#define MATRIX(TYPE, USE) coopmat<TYPE, gl_ScopeWorkgroup, 64, 64, gl_MatrixUse##USE>

float larger(const in float x, const in float y) { return max(x, y); }

void main() {
    MATRIX(float16_t, Accumulator) start;
    coopMatLoad(start, b, 0, 64, gl_CooperativeMatrixLayoutRowMajor);
    MATRIX(float, Accumulator) sums = MATRIX(float, Accumulator)(start);
    for (int i = 0; i < 3; ++i) {
        MATRIX(float, Accumulator) most;
        coopMatReduceNV(most, sums, gl_CooperativeMatrixReduceRowNV, larger);
        MATRIX(float16_t, A) a = MATRIX(float16_t, A)(MATRIX(float16_t, Accumulator)(sums - most));
        MATRIX(float16_t, B) factor;
        coopMatLoad(factor, b, i * 4096, 64, gl_CooperativeMatrixLayoutRowMajor);
        sums = coopMatMulAdd(a, factor, sums);
    }
    coopMatStore(sums, d, 0, 64, gl_CooperativeMatrixLayoutRowMajor);
}
