// The sum of all elements of each tile. MAT: the kind of matrix. A program of this kind asks for each element once.
#include "kernel.hpp"

struct Kernel {
  const T *m;
  S *out;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    MAT<T, TM, TN> t;
    auto at = in_global(m + tile_row(it) * TM * n + tile_col(it) * TN);
#ifdef DYNAMIC
    mx::joint_matrix_load(sg, t, at, n, row_major);
#else
    mx::joint_matrix_load(sg, t, at, n);
#endif
    S sum = 0;
    mx::joint_matrix_apply(sg, t, [&](T &x) { sum += S(x); });
    sum = sycl::reduce_over_group(sg, sum, sycl::plus<S>());
    if (sg.leader())
      out[tile_row(it) * (it.get_global_range(1) / SG) + tile_col(it)] = sum;
  }
};
KERNEL(Kernel)
