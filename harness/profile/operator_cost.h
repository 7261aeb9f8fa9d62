// Computes the FLOP and bytes of LibTorch's operators from the shapes of their tensors, and sums
// them by region.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/nvtx.h"

namespace rtfx {

/// The cost of an operator, which is computed without I/O, clock or CUDA.
struct OperatorCost {
  double flop =
      0;  // multiplications and additions; 1 for each element where nothing better is known
  double bytes = 0;     // every input read once, every output written once: at least that many
  bool matrix = false;  // products of matrices and convolutions, which matrix units compute
  OperatorCost& operator+=(const OperatorCost& other);
};

/// Returns whether the operator's name is that of a matrix product or a convolution.
bool is_matrix_operator(std::string_view name);

/// Returns the cost of one call. `name` is like "aten::addmm". An allocation costs nothing, and
/// neither does a view, which shares its input's memory and computes nothing. A look-up in a table,
/// such as "aten::embedding", reads only the bytes that it returns.
OperatorCost operator_cost(std::string_view name, std::span<const at::Tensor> inputs,
                           std::span<const at::Tensor> outputs);

/// All calls of an operator within a region, with the sum of their costs.
struct OperatorCount {
  int64_t calls = 0;
  OperatorCost cost;
};

/// Listens to the operators within `region` on the thread that constructs it, until it is
/// destroyed. The cost of an operator is that of its tensors minus the cost of the operators that
/// it calls. Products and convolutions count as a whole. Operators without cost do not count. The
/// operators of a CUDA graph are seen when it is recorded, not when it runs. rtfx's own kernels are
/// no operators.
class OperatorLog final : public RangeListener {
 public:
  explicit OperatorLog(RangeName region);
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  void opened(RangeName name) noexcept override;
  void closed(RangeName name) noexcept override;

  /// Returns the counts, indexed by the operator's name, such as "aten::addmm".
  const std::map<std::string, OperatorCount>& operators() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rtfx
