// Rows of tiles, each minus its largest element: the largest by where elements are, from lane to lane.
#include "kernel.hpp"

struct Kernel {
  float *c;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    MatC<float, 8, 16> m;
    auto at = in_global(c + tile_row(it) * 8 * n + tile_col(it) * 16);
    mx::joint_matrix_load(sg, m, at, n, row_major);
    float largest[8];
    for (int r = 0; r < 8; r++)
      largest[r] = -1000.0f;
    ix::joint_matrix_apply(sg, m, [&](float &x, size_t row, size_t) {
      for (int r = 0; r < 8; r++)
        if (size_t(r) == row)
          largest[r] = sycl::fmax(largest[r], x);
    });
    for (int r = 0; r < 8; r++)
      largest[r] = sycl::reduce_over_group(sg, largest[r], sycl::maximum<float>());
    ix::joint_matrix_apply(sg, m, [&](float &x, size_t row, size_t) {
      float most = 0;
      for (int r = 0; r < 8; r++)
        most = size_t(r) == row ? largest[r] : most;
      x -= most;
    });
    mx::joint_matrix_store(sg, m, at, n, row_major);
  }
};
KERNEL(Kernel)
