// What the shaders of this folder share.
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : enable
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_bfloat16 : enable
#extension GL_EXT_buffer_reference : enable
#ifndef SCOPE
#define SCOPE gl_ScopeSubgroup
#endif
#define A gl_MatrixUseA
#define B gl_MatrixUseB
#define ACC gl_MatrixUseAccumulator
#define ROW gl_CooperativeMatrixLayoutRowMajor
#define COLUMN gl_CooperativeMatrixLayoutColumnMajor
#define MAT(T, R, C, U) coopmat<T, SCOPE, R, C, U>
layout(constant_id = 0) const uint THREADS = 32;
layout(local_size_x_id = 0) in;
layout(local_size_x = 32) in;
