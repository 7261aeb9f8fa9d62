// An estimate of how far results of arithmetic in the model's dtype are from exact ones, to first
// order and with high probability. Each rounding is a random variable of its own, following the
// probabilistic analysis of Higham and Mary ("A New Approach to Probabilistic Rounding Error
// Analysis", SIAM J. Sci. Comput. 2019).
//
// u is the unit of the dtype: 2^-8 for bf16, 2^-11 for fp16, 2^-24 for fp32, 2^-53 for fp64. v is
// the unit of float32, in which products are summed (of float64 for fp64). No type here is wider
// than fp64, so a replay of fp64 errs as much as the decoder: both units are doubled for it. A
// value y that is rounded gets the variance u^2 y^2 / 3: the error of a rounding is at most u |y|.
// A sum of n products w x gets
//
//   sum w^2 var(x)  +  (u^2 + n v^2) / 3 * (sum w^2 x^2 + y^2)
//
// The terms with v stand for the order of the sum. Those with u stand for its result and for
// partial sums that are kept in the dtype. Elementwise functions pass variances on by their
// derivatives. Covariances are left out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/gpu/activation.h"

namespace rtfx {

/// The value of exact arithmetic, and the variance of the value that a decoder may have instead.
/// Both have one shape and are in Rounding::wide().
struct Uncertain {
  at::Tensor value, variance;

  /// Returns a value without an error.
  static Uncertain exact(const at::Tensor& value);
  Uncertain narrow(int64_t dim, int64_t begin, int64_t size) const;
  Uncertain select(int64_t dim, int64_t index) const;
  /// Returns a tensor whose row i is row index[i] of this [R, X].
  Uncertain rows(const at::Tensor& index) const;
  Uncertain reshape(at::IntArrayRef sizes) const;
};

class Rounding {
 public:
  explicit Rounding(at::ScalarType dtype);

  /// Returns the dtype in which values are computed here: float32 for bf16 and fp16, float64 for
  /// fp32 and fp64. Its own errors do not count.
  at::ScalarType wide() const { return wide_; }
  double unit() const { return unit_; }
  /// Returns the variance of a rounding, relative to the square of the value.
  double value_variance() const { return unit_ * unit_ / 3; }
  /// Returns the variance of a sum of `terms` products, relative to the squares of result and
  /// products.
  double sum_variance(int64_t terms) const;

  /// y = weight x + bias in the wide dtype.
  struct Linear {
    Linear(const at::Tensor& weight, const at::Tensor& bias, at::ScalarType wide);
    at::Tensor weight, bias, squared;  // squared: weight^2
  };
  /// The functions below return the result of an operation, with the variance that follows from the
  /// operands and from rounding.
  Uncertain linear(const Uncertain& x, const Linear& map) const;

  Uncertain sum(const Uncertain& a, const Uncertain& b) const;
  Uncertain product(const Uncertain& a, const Uncertain& b) const;
  Uncertain sigmoid(const Uncertain& x) const;
  Uncertain tanh(const Uncertain& x) const;
  Uncertain activation(Activation kind, const Uncertain& x) const;
  /// Returns the value, with the variance of one more rounding.
  Uncertain rounded(const at::Tensor& value, const at::Tensor& variance) const;

 private:
  at::ScalarType wide_;
  double unit_, sum_unit_;
};

}  // namespace rtfx
