// Element by element, each only by its value: c = f(c). OP: the body, of `x`, `alpha`, `beta`.
#include "kernel.hpp"

struct Kernel {
  T *c;
  size_t n;
  float alpha, beta;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    MatC<T, TM, TN> m;
    auto at = in_global(c + tile_row(it) * TM * n + tile_col(it) * TN);
    mx::joint_matrix_load(sg, m, at, n, row_major);
    float alpha = this->alpha, beta = this->beta;
    mx::joint_matrix_apply(sg, m, [=](T &x) { OP; });
    mx::joint_matrix_store(sg, m, at, n, row_major);
  }
};
KERNEL(Kernel)
