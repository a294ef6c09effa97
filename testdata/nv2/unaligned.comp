// Loads a matrix of T from element p.from of A, whose rows (with COLUMNS: columns) are p.from_stride elements apart, and
// stores it to element p.to of D. Neither needs to be a multiple of 16 bytes.
//
// MEMORY: 0 bindings, 1 addresses, 2 shared memory. PLAIN: plain loads and stores in place of tensors'. CLAMP: three rows
// and five columns less in the tensor of the load, with that clamp mode; STORE_CLAMP: of the store. CONSTANT: 3, 5, 19 and 21
// in place of p's.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_buffer_reference : require

#ifndef T
#define T float16_t
#endif
#ifndef COLS
#define COLS 16
#endif
#ifndef USE
#define USE gl_MatrixUseAccumulator
#endif
#ifndef CLAMP
#define CLAMP 0
#endif
#ifndef STORE_CLAMP
#define STORE_CLAMP 0
#endif
#ifndef MEMORY
#define MEMORY 0
#endif
#ifndef ROWS
#define ROWS 16
#endif

layout(local_size_x_id = 0) in;

layout(buffer_reference, buffer_reference_align = ALIGN) buffer Ref { T x[]; };

layout(push_constant) uniform P {
    uint from, to, from_stride, to_stride;
#if MEMORY == 1
    Ref a, d;
#endif
} p;

#if MEMORY != 1
layout(binding = 0) readonly buffer A { T a[]; };
layout(binding = 1) buffer D { T d[]; };
#endif
#if MEMORY == 2
shared T sa[1024], sd[1024];
#define SOURCE sa
#define SINK sd
#elif MEMORY == 1
#define SOURCE p.a.x
#define SINK p.d.x
#else
#define SOURCE a
#define SINK d
#endif

#ifdef CONSTANT
#define FROM 3
#define TO 5
#define FROM_STRIDE 19
#define TO_STRIDE 21
#else
#define FROM p.from
#define TO p.to
#define FROM_STRIDE p.from_stride
#define TO_STRIDE p.to_stride
#endif

#ifdef PLAIN
#ifdef COLUMNS
#define LAYOUT gl_CooperativeMatrixLayoutColumnMajor
#else
#define LAYOUT gl_CooperativeMatrixLayoutRowMajor
#endif
#endif

void main() {
#if MEMORY == 2
    for (uint i = gl_LocalInvocationIndex; i < 1024; i += gl_WorkGroupSize.x) {
        sa[i] = a[i];
        sd[i] = d[i];
    }
    barrier();
#endif
    coopmat<T, gl_ScopeSubgroup, ROWS, COLS, USE> m = coopmat<T, gl_ScopeSubgroup, ROWS, COLS, USE>(T(3));
#ifdef PLAIN
    coopMatLoad(m, SOURCE, FROM, FROM_STRIDE, LAYOUT);
    coopMatStore(m, SINK, TO, TO_STRIDE, LAYOUT);
#else
    tensorLayoutNV<2, CLAMP> source = createTensorLayoutNV(2, CLAMP);
    tensorLayoutNV<2, STORE_CLAMP> sink = createTensorLayoutNV(2, STORE_CLAMP);
    const uint less = CLAMP > 0 ? 1 : 0, less_stored = STORE_CLAMP > 0 ? 1 : 0;
#ifdef COLUMNS
    source = setTensorLayoutDimensionNV(source, COLS - 5 * less, ROWS - 3 * less);
    sink = setTensorLayoutDimensionNV(sink, COLS - 5 * less_stored, ROWS - 3 * less_stored);
#else
    source = setTensorLayoutDimensionNV(source, ROWS - 3 * less, COLS - 5 * less);
    sink = setTensorLayoutDimensionNV(sink, ROWS - 3 * less_stored, COLS - 5 * less_stored);
#endif
    source = setTensorLayoutStrideNV(source, FROM_STRIDE, 1);
    sink = setTensorLayoutStrideNV(sink, TO_STRIDE, 1);
#ifdef COLUMNS
    source = sliceTensorLayoutNV(source, 0, COLS, 0, ROWS);
    sink = sliceTensorLayoutNV(sink, 0, COLS, 0, ROWS);
    tensorViewNV<2, true, 1, 0> turned = createTensorViewNV(2, true, 1, 0);
    turned = setTensorViewDimensionsNV(turned, COLS, ROWS);
    coopMatLoadTensorNV(m, SOURCE, FROM, source, turned);
    coopMatStoreTensorNV(m, SINK, TO, sink, turned);
#else
    source = sliceTensorLayoutNV(source, 0, ROWS, 0, COLS);
    sink = sliceTensorLayoutNV(sink, 0, ROWS, 0, COLS);
    coopMatLoadTensorNV(m, SOURCE, FROM, source);
    coopMatStoreTensorNV(m, SINK, TO, sink);
#endif
#endif
#if MEMORY == 2
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < 1024; i += gl_WorkGroupSize.x) {
        d[i] = sd[i];
    }
#endif
}
