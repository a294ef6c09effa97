// C = relu(A x B + bias): each subgroup makes 2 x 2 tiles, in arrays of matrices; two subgroups in a workgroup.
#include "kernel.hpp"

struct Kernel {
  const bf16 *a, *b;
  float *c;
  const float *bias;
  size_t n, k;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * 16, n0 = tile_col(it) * 32;
    MatC<float, 8, 16> c[2][2];
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++)
        mx::joint_matrix_fill(sg, c[i][j], 0.0f);
    for (size_t k0 = 0; k0 < k; k0 += 16) {
      MatA<bf16, 8, 16> ta[2];
      MatBp<bf16, 16, 16> tb[2];
      for (int i = 0; i < 2; i++)
        mx::joint_matrix_load(sg, ta[i], in_global(a + (m0 + i * 8) * k + k0), k);
      for (int j = 0; j < 2; j++)
        mx::joint_matrix_load(sg, tb[j], in_global(b + k0 * n + (n0 + j * 16) * 2), n * 2);
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
          mx::joint_matrix_mad(sg, c[i][j], ta[i], tb[j], c[i][j]);
    }
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++) {
        size_t q = n0 + j * 16;
        ix::joint_matrix_apply(sg, c[i][j], [=, *this](float &x, size_t, size_t col) {
          x += bias[q + col];
          x = x > 0 ? x : 0;
        });
        mx::joint_matrix_store(sg, c[i][j], in_global(this->c + (m0 + i * 8) * n + q), n, row_major);
      }
  }
};
KERNEL(Kernel)
