// The sums of rows (or, with BY_COLUMN, columns) of a matrix, by where each element is, added up by atomics.
#include "kernel.hpp"

struct Kernel {
  const T *m;
  S *out;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * TM, n0 = tile_col(it) * TN;
    MAT<T, TM, TN> t;
    mx::joint_matrix_load(sg, t, in_global(m + m0 * n + n0), n);
    S *to = out;
    ix::joint_matrix_apply(sg, t, [=](T &x, size_t row, size_t col) {
#ifdef BY_COLUMN
      size_t line = n0 + col;
#else
      size_t line = m0 + row;
#endif
      sycl::atomic_ref<S, sycl::memory_order::relaxed, sycl::memory_scope::device,
                       sycl::access::address_space::global_space>
          sum(to[line]);
      sum += S(x);
    });
  }
};
KERNEL(Kernel)
