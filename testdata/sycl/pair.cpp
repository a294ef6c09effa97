// Two matrices at once: c = alpha * c + d, d = c - d, as one apply.
#include "kernel.hpp"

struct Kernel {
  T *c, *d;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    MatC<T, TM, TN> x, y;
    size_t at = tile_row(it) * TM * n + tile_col(it) * TN;
    mx::joint_matrix_load(sg, x, in_global(c + at), n, row_major);
    mx::joint_matrix_load(sg, y, in_global(d + at), n, row_major);
    mx::joint_matrix_apply(sg, x, y, [=](T &p, T &q) {
      T sum = p + q;
      q = p - q;
      p = sum;
    });
    mx::joint_matrix_store(sg, x, in_global(c + at), n, row_major);
    mx::joint_matrix_store(sg, y, in_global(d + at), n, row_major);
  }
};
KERNEL(Kernel)
