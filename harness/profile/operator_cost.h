// The FLOP and bytes of LibTorch's operators, computed from the shapes of their tensors and added
// up by region.
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

/// The cost of an operator, computed without I/O, clock or CUDA.
struct OperatorCost {
  double flop =
      0;  // multiplications and additions; 1 for each element where nothing better is known
  double bytes = 0;     // every input read once, every output written once: at least that many
  bool matrix = false;  // products of matrices and convolutions, which matrix units compute
  OperatorCost& operator+=(const OperatorCost& other);
};

/// Whether it is a product of matrices or a convolution, by its name.
bool is_matrix_operator(std::string_view name);

/// `name`: "aten::addmm". Zero for an allocation and for a view, which shares its input's memory
/// and computes nothing. A look-up in a table, such as "aten::embedding", reads the bytes that it
/// gives.
OperatorCost operator_cost(std::string_view name, std::span<const at::Tensor> inputs,
                           std::span<const at::Tensor> outputs);

/// The calls of an operator within a region, with their cost summed.
struct OperatorCount {
  int64_t calls = 0;
  OperatorCost cost;
};

/// Listens to the operators within `region`, from construction to destruction, on the constructing
/// thread alone. An operator's own cost is that of its tensors without the cost of the operators
/// that it calls. Products and convolutions count as a whole, and what costs nothing does not
/// count. Parts of a graph are seen where they are recorded, not where it runs; kernels of rtfx
/// itself are no operators.
class OperatorLog final : public RangeListener {
 public:
  explicit OperatorLog(RangeName region);
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  void opened(RangeName name) noexcept override;
  void closed(RangeName name) noexcept override;

  /// Counts by the operator's name, such as "aten::addmm".
  const std::map<std::string, OperatorCount>& operators() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rtfx
