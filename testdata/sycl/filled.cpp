// C = A x B with a factor that is the same everywhere.
#include "kernel.hpp"

struct Kernel {
  const T *b;
  float *c;
  size_t n, k;
  float value;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * 8, n0 = tile_col(it) * 16;
    MatC<float, 8, 16> c;
    mx::joint_matrix_fill(sg, c, value);
    MatA<T, 8, 16> ta;
    mx::joint_matrix_fill(sg, ta, T(value));
    for (size_t k0 = 0; k0 < k; k0 += 16) {
      MatB<T, 16, 16> tb;
      mx::joint_matrix_load(sg, tb, in_global(b + k0 * n + n0), n);
      mx::joint_matrix_mad(sg, c, ta, tb, c);
    }
    mx::joint_matrix_store(sg, c, in_global(this->c + m0 * n + n0), n, row_major);
  }
};
KERNEL(Kernel)
