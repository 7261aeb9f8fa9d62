// Adds up what LibTorch's operators of a region have to compute and to move.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/nvtx.h"
#include "harness/profile/operator_cost.h"

namespace rtfx {

struct OperatorCount {
  int64_t calls = 0;
  OperatorCost cost;
};

/// Listens from construction to destruction, on the constructing thread alone, to operators that
/// call no others, and to products and convolutions as a whole, within `region`. Parts of a graph
/// are seen where they are recorded, not where it runs; kernels of rtfx itself are no operators.
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
