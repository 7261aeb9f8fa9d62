#include "algorithms/shared/biasing/device_bias.h"

#include <ATen/ATen.h>

namespace rtfx {
namespace {

at::Tensor repeated_rows(const at::Tensor& rows, int64_t times) {
  if (!rows.defined()) return rows;
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes.insert(sizes.begin() + 1, times);
  return rows.unsqueeze(1).expand(sizes).flatten(0, 1).contiguous();
}

}  // namespace

at::Tensor DeviceBias::initial_states() const { return at::zeros_like(roots); }

at::Tensor DeviceBias::scores(const at::Tensor& states) const {
  return models->scores(roots + states);
}

at::Tensor DeviceBias::final_scores(const at::Tensor& states) const {
  return models->final_scores(roots + states);
}

at::Tensor DeviceBias::next_states(const at::Tensor& states, const at::Tensor& labels) const {
  const at::Tensor next = models->next_states(roots + states, labels);
  return (next - roots).masked_fill_(next == 0, 0);
}

DeviceBias DeviceBias::repeated(int64_t times) const {
  return {models, repeated_rows(roots, times), repeated_rows(blank_weights, times),
          repeated_rows(forbidden, times)};
}

}  // namespace rtfx
