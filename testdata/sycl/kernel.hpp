// What the kernels have in common: names, and how a functor becomes a kernel with its members as arguments, in order.
#pragma once
#include <sycl/sycl.hpp>

namespace mx = sycl::ext::oneapi::experimental::matrix;
namespace ix = sycl::ext::intel::experimental::matrix;
using bf16 = sycl::ext::oneapi::bfloat16;
using half = sycl::half;
using i8 = int8_t;
using u8 = uint8_t;
using item_t = sycl::nd_item<2>;
using group_t = sycl::sub_group;

template <typename T, size_t R, size_t C> using MatA = mx::joint_matrix<group_t, T, mx::use::a, R, C, mx::layout::row_major>;
template <typename T, size_t R, size_t C> using MatAt = mx::joint_matrix<group_t, T, mx::use::a, R, C, mx::layout::col_major>;
template <typename T, size_t R, size_t C> using MatB = mx::joint_matrix<group_t, T, mx::use::b, R, C, mx::layout::row_major>;
template <typename T, size_t R, size_t C> using MatBt = mx::joint_matrix<group_t, T, mx::use::b, R, C, mx::layout::col_major>;
template <typename T, size_t R, size_t C>
using MatBp = mx::joint_matrix<group_t, T, mx::use::b, R, C, mx::layout::ext_intel_packed>;
template <typename T, size_t R, size_t C> using MatC = mx::joint_matrix<group_t, T, mx::use::accumulator, R, C>;

// A pointer to global memory.
template <typename T> auto in_global(T *p) {
  return sycl::address_space_cast<sycl::access::address_space::global_space, sycl::access::decorated::no>(p);
}

constexpr auto row_major = mx::layout::row_major;
constexpr auto col_major = mx::layout::col_major;

// The kernel's own settings, behind what has some of their names for other things.
#include "options.hpp"
#ifndef SG
#define SG 16
#endif

// The tile of C that a subgroup makes: a row of tiles for each y, a column of tiles for each subgroup in x.
inline size_t tile_row(item_t it) { return it.get_global_id(0) - it.get_local_id(0); }
inline size_t tile_col(item_t it) {
  return (it.get_global_id(1) - it.get_local_id(1)) / SG + it.get_sub_group().get_group_linear_id();
}

// One kernel for each source: functor `Kernel`.
#define KERNEL(NAME)                                                                                                   \
  void launch(sycl::queue &q, const NAME &k, sycl::nd_range<2> range) {                                                \
    q.submit([&](sycl::handler &h) { h.parallel_for(range, k); });                                                     \
  }
