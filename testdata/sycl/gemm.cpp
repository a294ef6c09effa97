// C = A x B, or C += A x B. TA, TB, TC: component types. MODE: 0 B in rows, 1 B packed, 2 B in columns, 3 A and B in columns.
#include "kernel.hpp"
#ifndef TB
#define TB TA
#endif
#ifndef MODE
#define MODE 0
#endif

struct Kernel {
  const TA *a;
  const TB *b;
  TC *c;
  size_t n, k;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * TM, n0 = tile_col(it) * TN;
    size_t rows = it.get_global_range(0) * TM;
    MatC<TC, TM, TN> c;
#ifdef ADD
    mx::joint_matrix_load(sg, c, in_global(c_ptr() + m0 * n + n0), n, row_major);
#else
    mx::joint_matrix_fill(sg, c, TC(0));
#endif
    constexpr size_t V = 4 / sizeof(TB);
    for (size_t k0 = 0; k0 < k; k0 += TK) {
#if MODE == 3
      MatAt<TA, TM, TK> ta;
      mx::joint_matrix_load(sg, ta, in_global(a + k0 * rows + m0), rows);
#else
      MatA<TA, TM, TK> ta;
      mx::joint_matrix_load(sg, ta, in_global(a + m0 * k + k0), k);
#endif
#if MODE == 1
      MatBp<TB, TK, TN> tb;
      mx::joint_matrix_load(sg, tb, in_global(b + k0 / V * n * V + n0 * V), n * V);
#elif MODE >= 2
      MatBt<TB, TK, TN> tb;
      mx::joint_matrix_load(sg, tb, in_global(b + n0 * k + k0), k);
#else
      MatB<TB, TK, TN> tb;
      mx::joint_matrix_load(sg, tb, in_global(b + k0 * n + n0), n);
#endif
#ifdef PREFETCH
      if (k0 + TK < k)
        ix::joint_matrix_prefetch<TM, TK>(sg, a + m0 * k + k0 + TK, k, row_major,
                                          sycl::ext::oneapi::experimental::properties{
                                              sycl::ext::oneapi::experimental::prefetch_hint_L1});
#endif
#ifdef ROUND
      mx::joint_matrix_apply(sg, ta, [](float &x) { x = mx::round_to_tf32(x); });
      mx::joint_matrix_apply(sg, tb, [](float &x) { x = mx::round_to_tf32(x); });
#endif
      mx::joint_matrix_mad(sg, c, ta, tb, c);
    }
#ifdef RELU
    mx::joint_matrix_apply(sg, c, [](TC &x) { x = x > TC(0) ? x : TC(0); });
#endif
    mx::joint_matrix_store(sg, c, in_global(c_ptr() + m0 * n + n0), n, row_major);
  }
  TC *c_ptr() const { return c; }
};
KERNEL(Kernel)
