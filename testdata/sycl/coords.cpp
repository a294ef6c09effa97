// Element by element, each by where it is in the whole matrix: below the diagonal alpha * c + d, else -1.
#include "kernel.hpp"

struct Kernel {
  float *c;
  const float *d;
  float alpha;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * TM, n0 = tile_col(it) * TN;
    MatC<float, TM, TN> m;
    auto at = in_global(c + m0 * n + n0);
    mx::joint_matrix_load(sg, m, at, n, row_major);
    ix::joint_matrix_apply(sg, m, [=, *this](float &x, size_t row, size_t col) {
      size_t r = m0 + row, q = n0 + col;
      x = q <= r ? alpha * x + d[r * n + q] : -1.0f;
    });
    mx::joint_matrix_store(sg, m, at, n, row_major);
  }
};
KERNEL(Kernel)
