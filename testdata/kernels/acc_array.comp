// C = A * B with arrays of matrices whose lengths are specialization constants, one subgroup to (TM * M) x (TN * N).
//
// binding 0: A, f16, rows x inner, row-major        push constants: uint rows, cols, inner
// binding 1: B, f16, inner x cols, row-major
// binding 2: C, f32, rows x cols, row-major, written
//
// spec constants: 0 M, 1 N, 2 K (matrix), 3 invocations in a workgroup (the subgroup size), 4 TM, 5 TN (matrices)
// dispatch: (cols / (TN * N), rows / (TM * M), 1); rows, cols and inner are multiples
//
// With -DPRIVATE the arrays are global variables, and functions fill them.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(constant_id = 4) const uint TM = 2;
layout(constant_id = 5) const uint TN = 2;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) writeonly buffer BufferC { float c[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

#ifdef PRIVATE

MATRIX_A tilesA[TM];
MATRIX_B tilesB[TN];
MATRIX_C acc[TM][TN];

void load(uint row, uint col, uint k)
{
    for (uint r = 0; r < TM; ++r) {
        coopMatLoad(tilesA[r], a, (row + r * M) * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
    }
    for (uint n = 0; n < TN; ++n) {
        coopMatLoad(tilesB[n], b, k * cols + col + n * N, cols, gl_CooperativeMatrixLayoutRowMajor);
    }
}

void multiply()
{
    for (uint r = 0; r < TM; ++r) {
        for (uint n = 0; n < TN; ++n) {
            acc[r][n] = coopMatMulAdd(tilesA[r], tilesB[n], acc[r][n]);
        }
    }
}

void main()
{
    const uint row = gl_WorkGroupID.y * TM * M;
    const uint col = gl_WorkGroupID.x * TN * N;

    for (uint r = 0; r < TM; ++r) {
        for (uint n = 0; n < TN; ++n) {
            acc[r][n] = MATRIX_C(0.0);
        }
    }
    for (uint k = 0; k < inner; k += K) {
        load(row, col, k);
        multiply();
    }
    for (uint r = 0; r < TM; ++r) {
        for (uint n = 0; n < TN; ++n) {
            coopMatStore(acc[r][n], c, (row + r * M) * cols + col + n * N, cols, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
}

#else

void main()
{
    const uint row = gl_WorkGroupID.y * TM * M;
    const uint col = gl_WorkGroupID.x * TN * N;

    // Two dimensions for the even K steps, one dimension for the odd ones.
    MATRIX_C even[TM][TN];
    MATRIX_C odd[TM * TN];
    for (uint r = 0; r < TM; ++r) {
        for (uint n = 0; n < TN; ++n) {
            even[r][n] = MATRIX_C(0.0);
        }
    }
    for (uint i = 0; i < TM * TN; ++i) {
        odd[i] = MATRIX_C(0.0);
    }

    for (uint k = 0; k < inner; k += K) {
        MATRIX_A tilesA[TM];
        for (uint r = 0; r < TM; ++r) {
            coopMatLoad(tilesA[r], a, (row + r * M) * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
        }
        for (uint n = 0; n < TN; ++n) {
            MATRIX_B tileB;
            coopMatLoad(tileB, b, k * cols + col + n * N, cols, gl_CooperativeMatrixLayoutRowMajor);
            for (uint r = 0; r < TM; ++r) {
                if ((k / K & 1) == 0) {
                    even[r][n] = coopMatMulAdd(tilesA[r], tileB, even[r][n]);
                } else {
                    odd[r * TN + n] = coopMatMulAdd(tilesA[r], tileB, odd[r * TN + n]);
                }
            }
        }
    }

    for (uint r = 0; r < TM; ++r) {
        for (uint n = 0; n < TN; ++n) {
            coopMatStore(even[r][n] + odd[r * TN + n], c, (row + r * M) * cols + col + n * N, cols,
                gl_CooperativeMatrixLayoutRowMajor);
        }
    }
}

#endif
