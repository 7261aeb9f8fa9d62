// Rows of evaluations that a batched search needed. The networks are evaluated for all rows of a
// batch, also for rows that have ended or already have their label. Label-looping (Bataev et al.,
// SLT 2024, figure 2) makes fewer of these.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "algorithms/decoder.h"

namespace rtfx {

/// The help of the option `count_rows`.
inline constexpr char kCountRowsHelp[] =
    "Also count the rows of joint and prediction calls whose results the search used. This costs "
    "time and needs `loop` set to `host`.";

/// Throws UserError unless `loop` is "host": other loops count nothing.
void require_host_loop(const std::string& decoder, const std::string& loop);

/// Sums up masks [B] (bool) on the device of the search. Nothing waits before add_to().
class NeededRows {
 public:
  void reset() { joint_ = prediction_ = at::Tensor(); }
  /// Counts rows whose joint decision the search used.
  void joint(const at::Tensor& mask) { add(joint_, mask); }
  /// Counts rows whose prediction differs from the last one: rows with a new token, and all rows at
  /// the start.
  void prediction(const at::Tensor& mask) { add(prediction_, mask); }

  /// Adds `joint_rows_needed` and `pred_rows_needed`. Waits for the device.
  void add_to(Counters& counters) const;

 private:
  static void add(at::Tensor& sum, const at::Tensor& mask);
  at::Tensor joint_, prediction_;  // int64, undefined before the first mask
};

}  // namespace rtfx
