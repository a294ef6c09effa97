// C = A x B, then what a struct among the arguments says: scaled by a row of a table, shifted, bounded.
#include "kernel.hpp"

struct Epilogue {
  float scale[4];
  float shift;
  uint16_t row;
  bool bounded;
  struct { float low, high; } bound;
};
struct Kernel {
  const half *a, *b;
  float *c;
  size_t n, k;
  Epilogue e;
  const float *bias;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * 8, n0 = tile_col(it) * 16;
    MatC<float, 8, 16> c;
    mx::joint_matrix_fill(sg, c, 0.0f);
    for (size_t k0 = 0; k0 < k; k0 += 16) {
      MatA<half, 8, 16> ta;
      MatB<half, 16, 16> tb;
      mx::joint_matrix_load(sg, ta, in_global(a + m0 * k + k0), k);
      mx::joint_matrix_load(sg, tb, in_global(b + k0 * n + n0), n);
      mx::joint_matrix_mad(sg, c, ta, tb, c);
    }
    Epilogue e = this->e;
    float scale = e.scale[(e.row + tile_col(it)) % 4];
    ix::joint_matrix_apply(sg, c, [=, *this](float &x, size_t, size_t col) {
      x = x * scale + e.shift + bias[n0 + col];
      if (e.bounded)
        x = sycl::fmin(sycl::fmax(x, e.bound.low), e.bound.high);
    });
    mx::joint_matrix_store(sg, c, in_global(this->c + m0 * n + n0), n, row_major);
  }
};
KERNEL(Kernel)
