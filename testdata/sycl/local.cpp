// C = A x B through workgroup memory: slices of A and B that all subgroups of the workgroup bring. BYTES: as plain bytes.
#include "kernel.hpp"

struct Kernel {
  const T *a, *b;
  float *c;
  size_t n, k;
#ifdef BYTES
  sycl::local_accessor<unsigned char, 1> slices;
#else
  sycl::local_accessor<T, 2> sa, sb;
#endif
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    constexpr size_t SUBGROUPS = 2, WN = 16 * SUBGROUPS;
    size_t m0 = it.get_group(0) * 8, g0 = it.get_group(1) * WN, s = sg.get_group_linear_id(), lane = it.get_local_id(1);
#ifdef BYTES
    T *pa = reinterpret_cast<T *>(&slices[0]), *pb = reinterpret_cast<T *>(&slices[8 * 16 * sizeof(T)]);
#else
    T *pa = &sa[0][0], *pb = &sb[0][0];
#endif
    MatC<float, 8, 16> c;
    mx::joint_matrix_fill(sg, c, 0.0f);
    for (size_t k0 = 0; k0 < k; k0 += 16) {
      for (size_t i = lane; i < 8 * 16; i += WN)
        pa[i] = a[(m0 + i / 16) * k + k0 + i % 16];
      for (size_t i = lane; i < 16 * WN; i += WN)
        pb[i] = b[(k0 + i / WN) * n + g0 + i % WN];
      it.barrier(sycl::access::fence_space::local_space);
      MatA<T, 8, 16> ta;
      MatB<T, 16, 16> tb;
      using sycl::access::address_space;
      auto la = sycl::address_space_cast<address_space::local_space, sycl::access::decorated::no>(pa);
      auto lb = sycl::address_space_cast<address_space::local_space, sycl::access::decorated::no>(pb + s * 16);
      mx::joint_matrix_load(sg, ta, la, 16);
      mx::joint_matrix_load(sg, tb, lb, WN);
      mx::joint_matrix_mad(sg, c, ta, tb, c);
      it.barrier(sycl::access::fence_space::local_space);
    }
    mx::joint_matrix_store(sg, c, in_global(this->c + m0 * n + g0 + s * 16), n, row_major);
  }
};
void launch(sycl::queue &q, Kernel k, sycl::nd_range<2> range) {
  q.submit([&](sycl::handler &h) {
#ifdef BYTES
    k.slices = sycl::local_accessor<unsigned char, 1>(8 * 16 * 2 + 16 * 32 * 2, h);
#else
    k.sa = sycl::local_accessor<T, 2>({8, 16}, h);
    k.sb = sycl::local_accessor<T, 2>({16, 32}, h);
#endif
    h.parallel_for(range, k);
  });
}
