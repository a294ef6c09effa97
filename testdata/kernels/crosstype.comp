// D = A * B where f16 matrices lie in memory of other types: strides and offsets count elements of that memory.
//
// binding 0: A, uvec4 of eight f16, rows x inner, row-major
// binding 1: B, uint of two f16, inner x cols, row-major
// binding 2: D, f16, rows x cols, row-major, written: the f16 accumulator by way of a shared float[]
// binding 3: E, uint of two f16, rows x cols, row-major, written: the same by way of a shared uint[], stored as uint
// binding 4: F, f32, rows x cols, row-major, written: the same sums in f32, A loaded by way of a shared uvec4[]
// push constants: uint rows, cols, inner
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile; K is a multiple of 8, N of 8
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(constant_id = 3) const uint THREADS = 32;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { uvec4 a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { uint b[]; };
layout(set = 0, binding = 2) writeonly buffer BufferD { float16_t d[]; };
layout(set = 0, binding = 3) writeonly buffer BufferE { uint e[]; };
layout(set = 0, binding = 4) writeonly buffer BufferF { float f[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
};

shared uvec4 stagedA[M * K / 8];
shared float stagedD[M * N / 2];
shared uint stagedE[M * N / 2];

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> half_acc =
        coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> acc =
        coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);

    for (uint k = 0; k < inner; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> tileA;
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> again;
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> tileB;
        coopMatLoad(tileA, a, (row * inner + k) / 8, inner / 8, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(tileB, b, (k * cols + col) / 2, cols / 2, gl_CooperativeMatrixLayoutRowMajor);

        barrier();
        for (uint i = gl_LocalInvocationIndex; i < M * K / 8; i += THREADS) {
            stagedA[i] = a[((row + i / (K / 8)) * inner + k) / 8 + i % (K / 8)];
        }
        barrier();
        coopMatLoad(again, stagedA, 0, K / 8, gl_CooperativeMatrixLayoutRowMajor);

        half_acc = coopMatMulAdd(tileA, tileB, half_acc);
        acc = coopMatMulAdd(again, tileB, acc);
    }

    coopMatStore(half_acc, stagedD, 0, N / 2, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(half_acc, stagedE, 0, N / 2, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> fromFloats;
    coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> fromWords;
    coopMatLoad(fromFloats, stagedD, 0, N / 2, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(fromWords, stagedE, 0, N / 2, gl_CooperativeMatrixLayoutRowMajor);

    coopMatStore(fromFloats, d, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(fromWords, e, (row * cols + col) / 2, cols / 2, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(acc, f, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}
