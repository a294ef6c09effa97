// A matrix of one kind copied to one of another, stored: TO(m) = TF(m).
#include "kernel.hpp"

struct Kernel {
  const TF *m;
  TT *out;
  size_t n;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t at = tile_row(it) * TM * n + tile_col(it) * TN;
    FROM<TF, TM, TN> x;
    TO<TT, TM, TN> y;
#ifdef DYNAMIC
    mx::joint_matrix_load(sg, x, in_global(m + at), n, row_major);
#else
    mx::joint_matrix_load(sg, x, in_global(m + at), n);
#endif
    mx::joint_matrix_copy(sg, x, y);
#ifdef STORE_DYNAMIC
    mx::joint_matrix_store(sg, y, in_global(out + at), n, row_major);
#else
    ix::joint_matrix_store(sg, y, in_global(out + at), n);
#endif
  }
};
KERNEL(Kernel)
