// Linear maps by cuBLASLt. It can add the result to the output's previous values, add the bias,
// apply ReLU, and multiply matrices of 8-bit floats. SiLU is applied by a product of CUTLASS or by
// a kernel. CUTLASS also computes some products of few rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// The input of a linear map: [rows, in] in bf16, fp16 or e4m3. e4m3 has factors `scales` [rows]
/// float32.
struct LinearInput {
  at::Tensor values;
  at::Tensor scales;  // undefined except for e4m3
};

class Linear {
 public:
  enum class Result { replace, add, replace_relu, replace_silu };

  /// weight [out, in] and bias [out] (or undefined) are float32 on the CPU. They are multiplied by
  /// `factor`, then copied to `device` in `dtype`. With `eight_bits`, the weights become e4m3 with
  /// a scale for each output.
  Linear(const at::Tensor& weight, const at::Tensor& bias, at::Device device, at::ScalarType dtype,
         bool eight_bits, double factor = 1);

  /// Computes y [rows, out] = x W^T + b in the dtype. `result` adds ReLU or SiLU, or adds to the
  /// values of y. Enqueued on the current stream, without waiting. Throws std::runtime_error with
  /// the message of cuBLASLt or CUTLASS. SiLU needs `in` and `out` to be multiples of 8. Where
  /// fuses_silu(), SiLU takes the sum in float32, else rounded to the dtype.
  void operator()(const LinearInput& x, const at::Tensor& y, Result result = Result::replace) const;

  /// Replaces the call operator with `eight_bits` where cuBLASLt has no product with a scale for
  /// each row. This is reported for few rows with many inputs, which small steps of streams have
  /// (issue 4582 of pytorch/ao). It multiplies without scales into float32, and then scales, adds
  /// and rounds.
  void scale_afterwards(const LinearInput& x, const at::Tensor& y, Result result) const;

  /// Returns whether the product of `rows` rows is faster in parts(). This requires that a
  /// following kernel can add the parts.
  bool suits_parts(int64_t rows) const { return suits(rows, kParts); }
  /// Writes the sums of x W^T over parts of the inputs to sums [kParts, rows, out] float32.
  /// suits_parts(rows) must hold. Returns the argument of a norm that adds the product to its rows.
  /// It points to `sums` and to this map's bias. Enqueued on the current stream, without waiting.
  ProductParts parts(const LinearInput& x, const at::Tensor& sums) const;

  int64_t width() const { return weight_.size(0); }
  bool eight_bits() const { return scales_.defined(); }
  /// Returns whether SiLU is part of the product, as on GPUs of compute capability 9.0 in 16 bits.
  bool fuses_silu() const { return has_cutlass_; }

 private:
  /// Implements the call operator with SiLU.
  void multiply_silu(const LinearInput& x, const at::Tensor& y) const;
  /// Makes one call of cuBLASLt. Returns false, and leaves y as it was, where cuBLASLt has no such
  /// product. Without `scaled`, the scales of inputs and weights count as 1.
  bool multiply(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias, Result result,
                bool scaled) const;

  /// Returns whether CUTLASS's kernels of few rows are faster.
  bool suits(int64_t rows, int32_t parts) const;
  /// Returns the operands of a product by CUTLASS. `bias` may be undefined.
  Product operands(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias) const;

  at::Tensor weight_, bias_, scales_;
  bool has_cutlass_;  // 16 bits, on a GPU of compute capability 9.0
};

}  // namespace rtfx
