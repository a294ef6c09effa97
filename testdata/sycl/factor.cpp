// C = f(A) x g(B): factors changed element by element in front of the product. OPA, OPB: bodies, of `x`.
#include "kernel.hpp"

struct Kernel {
  const T *a, *b;
  TC *c;
  size_t n, k;
  float scale;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * TM, n0 = tile_col(it) * TN;
    float scale = this->scale;
    MatC<TC, TM, TN> c;
    mx::joint_matrix_fill(sg, c, TC(0));
    for (size_t k0 = 0; k0 < k; k0 += TK) {
      MatA<T, TM, TK> ta;
      MatB<T, TK, TN> tb;
      mx::joint_matrix_load(sg, ta, in_global(a + m0 * k + k0), k);
      mx::joint_matrix_load(sg, tb, in_global(b + k0 * n + n0), n);
      mx::joint_matrix_apply(sg, ta, [=](T &x) { OPA; });
      mx::joint_matrix_apply(sg, tb, [=](T &x) { OPB; });
      mx::joint_matrix_mad(sg, c, ta, tb, c);
    }
    mx::joint_matrix_store(sg, c, in_global(this->c + m0 * n + n0), n, row_major);
  }
};
KERNEL(Kernel)
