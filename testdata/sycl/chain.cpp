// E = T(A x B) x D: the accumulator of the first product becomes a factor of the second, element by element.
#include "kernel.hpp"

struct Kernel {
  const T *a, *b, *d;
  float *e;
  size_t n, k;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t m0 = tile_row(it) * TM;
    MatC<float, TM, 16> s, o;
    mx::joint_matrix_fill(sg, s, 0.0f);
    mx::joint_matrix_fill(sg, o, 0.0f);
    for (size_t k0 = 0; k0 < k; k0 += 16) {
      MatA<T, TM, 16> ta;
      MatB<T, 16, 16> tb;
      mx::joint_matrix_load(sg, ta, in_global(a + m0 * k + k0), k);
      mx::joint_matrix_load(sg, tb, in_global(b + k0 * 16), 16);
      mx::joint_matrix_mad(sg, s, ta, tb, s);
    }
    MatA<T, TM, 16> p;
    mx::joint_matrix_copy(sg, s, p);
    MatB<T, 16, 16> td;
    mx::joint_matrix_load(sg, td, in_global(d + tile_col(it) * 16), n);
    mx::joint_matrix_mad(sg, o, p, td, o);
    mx::joint_matrix_store(sg, o, in_global(e + m0 * n + tile_col(it) * 16), n, row_major);
  }
};
KERNEL(Kernel)
