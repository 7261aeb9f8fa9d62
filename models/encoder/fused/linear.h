// Linear maps by cuBLASLt, which adds the result to what is there, adds the bias, applies ReLU and
// multiplies matrices of 8-bit floats. SiLU is applied by a product of CUTLASS or by a kernel. Some
// products of few rows are CUTLASS's too.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// The input of a linear map: [rows, in] in bf16, fp16 or e4m3, the last with factors `scales`
/// [rows] float32.
struct LinearInput {
  at::Tensor values;
  at::Tensor scales;  // undefined but for e4m3
};

class Linear {
 public:
  enum class Result { replace, add, replace_relu, replace_silu };

  /// weight [out, in], bias [out] or undefined: float32 on the CPU, scaled here by `factor`, then
  /// placed on `device` in `dtype`. `eight_bits`: the weights as e4m3 with a scale for each output.
  Linear(const at::Tensor& weight, const at::Tensor& bias, at::Device device, at::ScalarType dtype,
         bool eight_bits, double factor = 1);

  /// y [rows, out] in the dtype = x W^T + b, with ReLU or SiLU, or added to what y holds. Enqueued
  /// on the current stream; does not wait. Throws std::runtime_error with what cuBLASLt or CUTLASS
  /// says. SiLU wants `in` and `out` to be multiples of 8. It takes the sum in float32 where
  /// fuses_silu(), else rounded to the dtype.
  void operator()(const LinearInput& x, const at::Tensor& y, Result result = Result::replace) const;

  /// Takes the place of the call operator with `eight_bits` where cuBLASLt has no product with a
  /// scale for each row. This is reportedly so for few rows of many inputs, as small steps of
  /// streams have them (issue 4582 of pytorch/ao). Multiplies without scales into float32, and then
  /// scales, adds and rounds.
  void scale_afterwards(const LinearInput& x, const at::Tensor& y, Result result) const;

  /// Whether the product of so many rows is faster in parts(), where a kernel behind it can add
  /// them.
  bool suits_parts(int64_t rows) const { return suits(rows, kParts); }
  /// Writes sums [kParts, rows, out] float32 = the sums of x W^T over parts of the inputs, for
  /// suits_parts(rows). Returns what a norm adds to its rows; it points to `sums` and to this map's
  /// bias. Enqueued on the current stream; does not wait.
  ProductParts parts(const LinearInput& x, const at::Tensor& sums) const;

  int64_t width() const { return weight_.size(0); }
  bool eight_bits() const { return scales_.defined(); }
  /// Whether SiLU is part of the product: on GPUs of compute capability 9.0, in 16 bits.
  bool fuses_silu() const { return has_cutlass_; }

 private:
  /// The call operator with SiLU.
  void multiply_silu(const LinearInput& x, const at::Tensor& y) const;
  /// One call of cuBLASLt; false where it has no such product, and y is as it was. Without
  /// `scaled`, the scales of inputs and weights count as 1.
  bool multiply(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias, Result result,
                bool scaled) const;

  /// Whether CUTLASS's kernels of few rows are the faster ones.
  bool suits(int64_t rows, int32_t parts) const;
  /// The operands of a product by CUTLASS, with `bias` or without.
  Product operands(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias) const;

  at::Tensor weight_, bias_, scales_;
  bool has_cutlass_;  // 16 bits, on a GPU of compute capability 9.0
};

}  // namespace rtfx
