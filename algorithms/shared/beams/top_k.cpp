#include "algorithms/shared/beams/top_k.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "models/checkpoint/tensor_data.h"
#include "models/parallel.h"

namespace rtfx {

namespace {

/// Compares as at::topk does: all NaNs are equal.
template <class T>
bool are_equal(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// Counts the values that equal `value` among the first `count` of a row. The loop has no branches,
/// so that the compiler vectorises it.
template <class T>
int64_t count_equal(const T* row, int64_t count, T value) {
  int64_t equal = 0;
  for (int64_t i = 0; i < count; ++i) equal += row[i] == value;
  return equal;
}

/// Gives equal values the order of the rule. `best` [k] holds the values that LibTorch chose from
/// `row`, best first, and `index` [k] where it found them.
template <class T>
void order_equal_values(const T* row, const T* best, int64_t* index, int64_t k) {
  for (int64_t begin = 0; begin < k;) {
    int64_t end = begin + 1;
    while (end < k && are_equal(best[begin], best[end])) ++end;
    std::sort(index + begin, index + end);
    // The row may hold more of the last value than were chosen, at lower indices.
    const T value = best[begin];
    const int64_t width = index[end - 1] + 1;
    if (end == k && count_equal(row, width, value) != end - begin) {
      for (int64_t i = 0; i < width && begin < k; ++i)
        if (are_equal(row[i], value)) index[begin++] = i;
    }
    begin = end;
  }
}

/// Returns the values that LibTorch chooses, in the order of our rule. LibTorch leaves open which
/// of equal values it takes, and in which order.
template <class T>
TopK top_k_on_cpu(const at::Tensor& values, int64_t k) {
  const at::Tensor rows = values.contiguous();
  const auto [best, indices] = rows.topk(k, -1);
  const int64_t width = rows.size(-1);
  const T* row = data_of<T>(rows);
  const T* chosen = data_of<T>(best);
  auto* index = indices.mutable_data_ptr<int64_t>();
  parallel_ranges(k == 0 ? 0 : indices.numel() / k, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      order_equal_values(row + r * width, chosen + r * k, index + r * k, k);
  });
  return {rows.gather(-1, indices), indices};
}

/// Sorts integers that hold value and index, so that no two of a row are equal. They have the order
/// of max_key (algorithms/gpu/ordered_key.h). The bits of positive floats have the order of their
/// values, and those of negative ones the reverse order. Adding 0 turns -0 into 0, and any NaN into
/// the GPU's own, whose bits are 0x7fffffff.
TopK top_k_on_gpu(const at::Tensor& values, int64_t k) {
  const at::Tensor bits = (values + 0.0).view(at::kInt).to(at::kLong);
  const at::Tensor order = at::where(bits < 0, bits.bitwise_xor(0x7fffffff), bits);
  const at::Tensor index = at::arange(values.size(-1), order.options());
  const at::Tensor indices = std::get<1>((order.mul(int64_t{1} << 32) - index).topk(k, -1));
  return {values.gather(-1, indices), indices};
}

}  // namespace

TopK top_k(const at::Tensor& values, int64_t k) {
  if (k == 1) {
    const auto [best, index] = values.max(-1, /*keepdim=*/true);  // the first of equal ones
    return {best, index};
  }
  if (values.is_cuda()) return top_k_on_gpu(values, k);
  return values.scalar_type() == at::kDouble ? top_k_on_cpu<double>(values, k)
                                             : top_k_on_cpu<float>(values, k);
}

}  // namespace rtfx
