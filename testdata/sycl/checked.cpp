// C = A x B of any sizes, by checked loads, fills and stores.
#include "kernel.hpp"

struct Kernel {
  const T *a, *b;
  float *c;
  size_t m, n, k;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * 8, n0 = tile_col(it) * 16;
    MatC<float, 8, 16> c;
    ix::joint_matrix_fill_checked(sg, c, 0.5f, m, n, m0, n0);
    for (size_t k0 = 0; k0 < k; k0 += TK) {
      MatA<T, 8, TK> ta;
      MatB<T, TK, 16> tb;
      ix::joint_matrix_load_checked(sg, ta, in_global(a), k, m, k, m0, k0);
      ix::joint_matrix_load_checked(sg, tb, in_global(b), n, k, n, k0, n0);
      mx::joint_matrix_mad(sg, c, ta, tb, c);
    }
    ix::joint_matrix_store_checked(sg, c, in_global(this->c), n, row_major, m, n, m0, n0);
  }
};
KERNEL(Kernel)
