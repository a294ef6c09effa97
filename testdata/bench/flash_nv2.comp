// O = softmax(scale * Q * transpose(K)) * V with workgroup-scope matrices: VK_NV_cooperative_matrix2.
//
// Q is heads x n x HEAD in f16, O the same in f32, K and V are kv_heads x kv x HEAD in f16. A workgroup makes BR rows of O of one
// head; K and V go by BC rows at a time. Maxima and sums of rows are matrices whose rows hold one value.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BR = 64;
layout(constant_id = 2) const uint BC = 64;
layout(constant_id = 3) const uint HEAD = 64;

layout(push_constant) uniform Sizes {
    uint n, kv, heads, kv_heads;
    float scale;
};

layout(set = 0, binding = 0) readonly buffer Q { float16_t q[]; };
layout(set = 0, binding = 1) readonly buffer K { float16_t k[]; };
layout(set = 0, binding = 2) readonly buffer V { float16_t v[]; };
layout(set = 0, binding = 3) writeonly buffer O { float o[]; };

const float LOWEST = -1e30;

float scaled(const in uint row, const in uint column, const in float x, const in uint first, const in float by) {
    return first + column < kv ? x * by : LOWEST;
}
float larger(const in float x, const in float y) {
    return max(x, y);
}
float sum(const in float x, const in float y) {
    return x + y;
}
float larger_of(const in uint row, const in uint column, const in float x, const in float y) {
    return max(x, y);
}
float power(const in uint row, const in uint column, const in float x) {
    return exp2(x);
}
float inverse(const in uint row, const in uint column, const in float x) {
    return 1.0 / x;
}

#define ROWS coopmat<float, gl_ScopeWorkgroup, BR, BC, gl_MatrixUseAccumulator>
#define RESULT coopmat<float, gl_ScopeWorkgroup, BR, HEAD, gl_MatrixUseAccumulator>

// BC rows of K and V.
#define STEP(layout)                                                                                                   \
        coopmat<float16_t, gl_ScopeWorkgroup, HEAD, BC, gl_MatrixUseB> keys;                                           \
        coopMatLoadTensorNV(keys, k, kv_from, sliceTensorLayoutNV(layout, first, BC, 0, HEAD), transposed);            \
        ROWS scores = coopMatMulAdd(queries, keys, ROWS(0.0));                                                         \
        coopMatPerElementNV(scores, scores, scaled, first, by);                                                        \
        ROWS most;                                                                                                     \
        coopMatReduceNV(most, scores, gl_CooperativeMatrixReduceRowNV, larger);                                        \
        coopMatPerElementNV(most, most, larger_of, maxima);                                                            \
        scores = scores - most;                                                                                        \
        coopMatPerElementNV(scores, scores, power);                                                                    \
        ROWS factor = maxima - most;                                                                                   \
        coopMatPerElementNV(factor, factor, power);                                                                    \
        ROWS total;                                                                                                    \
        coopMatReduceNV(total, scores, gl_CooperativeMatrixReduceRowNV, sum);                                          \
        sums = factor * sums + total;                                                                                  \
        maxima = most;                                                                                                 \
        RESULT wide;                                                                                                   \
        coopMatReduceNV(wide, factor, gl_CooperativeMatrixReduceRowNV, larger);                                        \
        result = wide * result;                                                                                        \
        coopmat<float16_t, gl_ScopeWorkgroup, BC, HEAD, gl_MatrixUseB> values;                                         \
        coopMatLoadTensorNV(values, v, kv_from, sliceTensorLayoutNV(layout, first, BC, 0, HEAD));                      \
        coopmat<float16_t, gl_ScopeWorkgroup, BR, BC, gl_MatrixUseA> weights =                                         \
            coopmat<float16_t, gl_ScopeWorkgroup, BR, BC, gl_MatrixUseA>(scores);                                      \
        result = coopMatMulAdd(weights, values, result);

void main() {
    uint row = gl_WorkGroupID.x * BR;
    uint head = gl_WorkGroupID.y;
    uint kv_from = head / (heads / kv_heads) * kv * HEAD;
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> of_q =
        createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    of_q = setTensorLayoutDimensionNV(of_q, n, HEAD);
    tensorLayoutNV<2> whole = createTensorLayoutNV(2);
    whole = setTensorLayoutDimensionNV(whole, kv, HEAD);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> rest =
        createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    rest = setTensorLayoutDimensionNV(rest, kv, HEAD);

    coopmat<float16_t, gl_ScopeWorkgroup, BR, HEAD, gl_MatrixUseA> queries;
    coopMatLoadTensorNV(queries, q, head * n * HEAD, sliceTensorLayoutNV(of_q, row, BR, 0, HEAD));

    RESULT result = RESULT(0.0);
    ROWS maxima = ROWS(LOWEST);
    ROWS sums = ROWS(0.0);
    // Powers of two instead of e.
    float by = scale * 1.4426950408889634;

    uint first = 0;
    for (; first + BC <= kv; first += BC) {
        STEP(whole)
    }
    if (first < kv) {
        STEP(rest)
    }

    coopMatPerElementNV(sums, sums, inverse);
    RESULT wide;
    coopMatReduceNV(wide, sums, gl_CooperativeMatrixReduceRowNV, larger);
    result = wide * result;
    coopMatStoreTensorNV(result, o, head * n * HEAD, sliceTensorLayoutNV(of_q, row, BR, 0, HEAD));
}
