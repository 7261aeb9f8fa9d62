#include "algorithms/shared/beams/top_k.h"

#include <ATen/ATen.h>

namespace rtfx {

TopK top_k(const at::Tensor& values, int64_t k) {
  if (k == 1) {
    const auto [best, index] = values.max(-1, /*keepdim=*/true);  // the first of equals
    return {best, index};
  }
  // One signed integer for value and index, so that no two of a row are equal: the order of max_key
  // (algorithms/gpu/ordered_key.h). As integers the bits of positive floats have the order of their
  // values, those of negative ones the reverse; adding 0 makes -0 a 0.
  const at::Tensor bits = (values + 0.0).view(at::kInt).to(at::kLong);
  const at::Tensor order = at::where(bits < 0, bits.bitwise_xor(0x7fffffff), bits);
  const at::Tensor index = at::arange(values.size(-1), order.options());
  const at::Tensor indices = std::get<1>((order.mul(int64_t{1} << 32) - index).topk(k, -1));
  return {values.gather(-1, indices), indices};
}

}  // namespace rtfx
