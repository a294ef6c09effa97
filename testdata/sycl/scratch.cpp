// C transposed tile by tile: stored into workgroup memory by columns, read back by rows.
#include "kernel.hpp"

struct Kernel {
  const float *m;
  float *out;
  size_t n;
  sycl::local_accessor<float, 1> scratch;
  [[sycl::reqd_sub_group_size(SG)]] void operator()(item_t it) const {
    auto sg = it.get_sub_group();
    size_t r = tile_row(it), q = tile_col(it), rows = it.get_global_range(0) * 8;
    MatC<float, 8, 16> x;
    mx::joint_matrix_load(sg, x, in_global(m + r * 8 * n + q * 16), n, row_major);
    auto mine = scratch.get_multi_ptr<sycl::access::decorated::no>() + sg.get_group_linear_id() * 128;
    mx::joint_matrix_store(sg, x, mine, 8, col_major);
    sycl::group_barrier(sg);
    size_t lane = sg.get_local_linear_id();
    for (size_t i = lane; i < 128; i += SG)
      out[(q * 16 + i / 8) * rows + r * 8 + i % 8] = mine[i];
  }
};
void launch(sycl::queue &q, Kernel k, sycl::nd_range<2> range) {
  q.submit([&](sycl::handler &h) {
    k.scratch = sycl::local_accessor<float, 1>(128, h);
    h.parallel_for(range, k);
  });
}
