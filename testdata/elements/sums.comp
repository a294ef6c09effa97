#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// The sums of all elements of A, of B and of C = A x B, added up element by element: right only where each element is held once.
layout(constant_id = 0) const uint SIZE = 8;
layout(local_size_x_id = 1) in;
layout(set = 0, binding = 0) readonly buffer Factors { float16_t factors[]; };
layout(set = 0, binding = 1) writeonly buffer Sums { float sums[]; };

void main() {
  coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseB> b;
  coopMatLoad(a, factors, 0, SIZE, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, factors, SIZE * SIZE, SIZE, gl_CooperativeMatrixLayoutRowMajor);
  coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator> c =
      coopMatMulAdd(a, b, coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator>(0.0));
  float of_a = 0.0, of_b = 0.0, of_c = 0.0;
  for (int i = 0; i < a.length(); i++)
    of_a += float(a[i]);
  for (int i = 0; i < b.length(); i++)
    of_b += float(b[i]);
  for (int i = 0; i < c.length(); i++)
    of_c += c[i];
  of_a = subgroupAdd(of_a);
  of_b = subgroupAdd(of_b);
  of_c = subgroupAdd(of_c);
  if (gl_LocalInvocationIndex == 0) {
    sums[0] = of_a;
    sums[1] = of_b;
    sums[2] = of_c;
  }
}
