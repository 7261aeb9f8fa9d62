// Hypotheses that grow on the host, row by row, as in NeMo's loop over rows in Python. The
// published baselines of greedy search contain it (option "host_reads": "rows").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithms/gpu/host_read.h"
#include "algorithms/hypotheses.h"

namespace rtfx {

/// The help of the option `host_reads`.
inline constexpr char kHostReadsHelp[] =
    "Decisions that the CPU reads after each joint call. `flag`: only what the loop needs to know "
    "of all utterances together. `rows`: also the decision of each utterance, as in the published "
    "baseline.";

class RowsOnHost {
 public:
  explicit RowsOnHost(int64_t rows)
      : lists_(static_cast<size_t>(rows), std::vector<Hypothesis>(1)) {}

  /// The decisions of a joint call, [B] each.
  struct Decided {
    at::Tensor labels, scores;
    at::Tensor durations;  // defined for TDT only
    at::Tensor frames;     // undefined if all rows are at `frame`
    int64_t frame = 0;
  };
  /// Appends the labels of the rows of `mask` [B], bool. It waits for the device once for each row
  /// to learn whether there is a label. If there is one, it waits once more for each defined tensor
  /// of `decided`.
  void append(HostReads& reads, const at::Tensor& mask, const Decided& decided);

  /// Returns the hypotheses. `nan` [B], bool, on the host: see rows_with_nan().
  Hypotheses result(bool with_durations, const at::Tensor& nan) const {
    return Hypotheses::from_lists(lists_, with_durations, /*entries=*/1, nan);
  }

 private:
  std::vector<std::vector<Hypothesis>> lists_;
};

}  // namespace rtfx
