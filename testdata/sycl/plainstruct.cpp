// c = c * scale + shift, numbers of which come in a struct without pointers, and the matrix in an array of two.
#include "kernel.hpp"

struct Sizes {
  uint32_t rows, cols, stride;
  float factor[3];
};
struct Kernel {
  float *c;
  Sizes s;
  int which;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t r = tile_row(it) * 8, q = tile_col(it) * 32;
    if (r >= s.rows || q >= s.cols)
      return;
    MatC<float, 8, 16> m[2];
    float f = s.factor[which], g = s.factor[which + 1];
    for (int i = 0; i < 2; i++)
      mx::joint_matrix_load(sg, m[i], in_global(c + r * s.stride + q + i * 16), s.stride, row_major);
    for (int i = 0; i < 2; i++)
      mx::joint_matrix_apply(sg, m[i], [=](float &x) { x = x * f + g; });
    for (int i = 0; i < 2; i++)
      mx::joint_matrix_store(sg, m[i], in_global(c + r * s.stride + q + i * 16), s.stride, row_major);
  }
};
KERNEL(Kernel)
