// A quantised product: C = A x B - zero * (sums of A's rows), the sums made of the elements of A on the way.
#include "kernel.hpp"

struct Kernel {
  const u8 *a;
  const i8 *b;
  int32_t *c, *sums;
  size_t n, k;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * 8, n0 = tile_col(it) * 16;
    MatC<int32_t, 8, 16> c;
    mx::joint_matrix_fill(sg, c, 0);
    int32_t rows[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (size_t k0 = 0; k0 < k; k0 += 32) {
      MatA<u8, 8, 32> ta;
      MatBp<i8, 32, 16> tb;
      mx::joint_matrix_load(sg, ta, in_global(a + m0 * k + k0), k);
      mx::joint_matrix_load(sg, tb, in_global(b + k0 / 4 * n * 4 + n0 * 4), n * 4);
      mx::joint_matrix_mad(sg, c, ta, tb, c);
      ix::joint_matrix_apply(sg, ta, [&](u8 &x, size_t row, size_t) {
        for (int r = 0; r < 8; r++)
          rows[r] += size_t(r) == row ? int32_t(x) : 0;
      });
    }
    for (int r = 0; r < 8; r++) {
      rows[r] = sycl::reduce_over_group(sg, rows[r], sycl::plus<int32_t>());
      if (n0 == 0 && sg.leader())
        sums[m0 + r] = rows[r];
    }
    ix::joint_matrix_apply(sg, c, [&](int32_t &x, size_t row, size_t) {
      for (int r = 0; r < 8; r++)
        x -= size_t(r) == row ? 3 * rows[r] : 0;
    });
    mx::joint_matrix_store(sg, c, in_global(this->c + m0 * n + n0), n, row_major);
  }
};
KERNEL(Kernel)
