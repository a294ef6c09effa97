// A free function as a kernel: c = alpha * c, without a functor around it.
#include "kernel.hpp"
namespace syclex = sycl::ext::oneapi::experimental;

extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclex::nd_range_kernel<2>))
    SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclex::sub_group_size<SG>)) void scale(float *c, size_t n, float alpha) {
  auto it = sycl::ext::oneapi::this_work_item::get_nd_item<2>();
  auto sg = it.get_sub_group();
  MatC<float, 8, 16> m;
  auto at = in_global(c + tile_row(it) * 8 * n + tile_col(it) * 16);
  mx::joint_matrix_load(sg, m, at, n, row_major);
  mx::joint_matrix_apply(sg, m, [=](float &x) { x *= alpha; });
  mx::joint_matrix_store(sg, m, at, n, row_major);
}
