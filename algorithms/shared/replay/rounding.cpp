#include "algorithms/shared/replay/rounding.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {
namespace {

constexpr double kFloatUnit = 0x1p-24, kDoubleUnit = 0x1p-53;

double unit_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return 0x1p-8;
    case at::kHalf:
      return 0x1p-11;
    case at::kDouble:
      return 2 * kDoubleUnit;
    default:
      return kFloatUnit;
  }
}

}  // namespace

Uncertain Uncertain::exact(const at::Tensor& value) { return {value, at::zeros_like(value)}; }

Uncertain Uncertain::narrow(int64_t dim, int64_t begin, int64_t size) const {
  return {value.narrow(dim, begin, size), variance.narrow(dim, begin, size)};
}

Uncertain Uncertain::select(int64_t dim, int64_t index) const {
  return {value.select(dim, index), variance.select(dim, index)};
}

Uncertain Uncertain::rows(const at::Tensor& index) const {
  return {value.index_select(0, index), variance.index_select(0, index)};
}

Uncertain Uncertain::reshape(at::IntArrayRef sizes) const {
  return {value.reshape(sizes), variance.reshape(sizes)};
}

Rounding::Rounding(at::ScalarType dtype)
    : wide_(dtype == at::kFloat || dtype == at::kDouble ? at::kDouble : at::kFloat),
      unit_(unit_of(dtype)),
      sum_unit_(std::min(unit_, kFloatUnit)) {}

double Rounding::sum_variance(int64_t terms) const {
  return (unit_ * unit_ + static_cast<double>(terms) * sum_unit_ * sum_unit_) / 3;
}

Rounding::Linear::Linear(const at::Tensor& weight, const at::Tensor& bias, at::ScalarType wide)
    : weight(weight.to(wide)), bias(bias.to(wide)), squared(this->weight.square()) {}

Uncertain Rounding::linear(const Uncertain& x, const Linear& map) const {
  const double relative = sum_variance(map.weight.size(1));
  const at::Tensor value = at::linear(x.value, map.weight, map.bias);
  at::Tensor variance = at::linear(x.value.square().mul_(relative).add_(x.variance), map.squared);
  return {value, variance.addcmul_(value, value, relative)};
}

Uncertain Rounding::rounded(const at::Tensor& value, const at::Tensor& variance) const {
  return {value, variance.addcmul(value, value, value_variance())};
}

Uncertain Rounding::sum(const Uncertain& a, const Uncertain& b) const {
  return rounded(a.value + b.value, a.variance + b.variance);
}

Uncertain Rounding::product(const Uncertain& a, const Uncertain& b) const {
  return rounded(a.value * b.value, a.value.square() * b.variance + b.value.square() * a.variance);
}

Uncertain Rounding::sigmoid(const Uncertain& x) const {
  const at::Tensor y = x.value.sigmoid();
  return rounded(y, (y * (1 - y)).square_().mul_(x.variance));
}

Uncertain Rounding::tanh(const Uncertain& x) const {
  const at::Tensor y = x.value.tanh();
  return rounded(y, (1 - y.square()).square_().mul_(x.variance));
}

Uncertain Rounding::activation(Activation kind, const Uncertain& x) const {
  switch (kind) {
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::relu:
      break;
  }
  // A value a little below 0 may be above 0 in the dtype. The function itself does not round.
  const at::Tensor may_pass = x.value > x.variance.sqrt().mul_(-2);
  return {x.value.relu(), x.variance * may_pass};
}

}  // namespace rtfx
