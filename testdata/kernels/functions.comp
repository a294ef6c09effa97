// D = A * B + C, or relu of it, or twice it, by functions that take, return and change matrices, and by matrices chosen
// in branches and carried round loops.
//
// binding 0: A, f16, rows x inner, row-major
// binding 1: B, f16, inner x cols, row-major
// binding 2: C, f32, rows x cols, row-major
// binding 3: D, f32, rows x cols, row-major, written
// push constants: uint rows, cols, inner, mode, skip
//   mode 0: D = A*B + C    1: D = max(A*B + C, 0)    2: D = 2 * (A*B + C)    3: D = C
//   skip: the K step (counted in tiles) that is left out; none when it is beyond the last
//
// spec constants: 0 M, 1 N, 2 K (tile), 3 invocations in a workgroup (the subgroup size)
// dispatch: (cols / N, rows / M, 1); rows, cols and inner are multiples of the tile
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require

layout(constant_id = 0) const uint M = 16;
layout(constant_id = 1) const uint N = 16;
layout(constant_id = 2) const uint K = 16;
layout(local_size_x_id = 3) in;
layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer BufferA { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer BufferB { float16_t b[]; };
layout(set = 0, binding = 2) readonly buffer BufferC { float c[]; };
layout(set = 0, binding = 3) writeonly buffer BufferD { float d[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint inner;
    uint mode;
    uint skip;
};

#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

MATRIX_A loadA(uint row, uint k)
{
    MATRIX_A tile;
    coopMatLoad(tile, a, row * inner + k, inner, gl_CooperativeMatrixLayoutRowMajor);
    return tile;
}

MATRIX_B loadB(uint k, uint col)
{
    MATRIX_B tile;
    coopMatLoad(tile, b, k * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
    return tile;
}

void accumulate(MATRIX_A x, const MATRIX_B y, inout MATRIX_C sum)
{
    sum = coopMatMulAdd(x, y, sum);
}

MATRIX_C relu(MATRIX_C x)
{
    for (int e = 0; e < x.length(); ++e) {
        x[e] = max(x[e], 0.0);
    }
    return x;
}

MATRIX_C finish(MATRIX_C x)
{
    if (mode == 1) {
        return relu(x);
    }
    if (mode == 2) {
        return x + x;
    }
    return x;
}

void split(uint row, uint col, out MATRIX_C zero, out MATRIX_C bias)
{
    zero = MATRIX_C(0.0);
    coopMatLoad(bias, c, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}

void main()
{
    const uint row = gl_WorkGroupID.y * M;
    const uint col = gl_WorkGroupID.x * N;

    MATRIX_C zero;
    MATRIX_C bias;
    split(row, col, zero, bias);

    // Software pipelining: the tiles of the next step travel round the loop.
    MATRIX_C sum = zero;
    MATRIX_A nextA = loadA(row, 0);
    MATRIX_B nextB = loadB(0, col);
    for (uint k = 0; k < inner; k += K) {
        MATRIX_A tileA = nextA;
        MATRIX_B tileB = nextB;
        if (mode == 3) {
            break;
        }
        if (k + K < inner) {
            nextA = loadA(row, k + K);
            nextB = loadB(k + K, col);
        }
        if (k / K == skip) {
            continue;
        }
        accumulate(tileA, tileB, sum);
    }

    MATRIX_C result;
    if (mode == 3) {
        result = bias;
    } else {
        result = sum + bias;
    }
    coopMatStore(finish(result), d, row * cols + col, cols, gl_CooperativeMatrixLayoutRowMajor);
}
