// The texts of a beam as plain arrays, which each step copies. Searches use the tree of
// BeamHypotheses instead. The arrays are its reference: they show how much time the tree saves, and
// whether texts of equal hashes are really equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "algorithms/hypotheses.h"

namespace rtfx {

/// Shapes: B utterances, K slots, N tokens at most. No member waits for the device but counts(),
/// and all can be recorded into a graph.
class FlatTexts {
 public:
  FlatTexts(int64_t batch, int64_t beam, int64_t capacity, bool with_durations, at::Device device);

  /// Does one step: slot k of each beam becomes text parents[b, k], followed by labels[b, k] where
  /// `token` is set. All are [B, K]. `lengths` and `times` are those of the parents; `durations`
  /// may be undefined.
  void append(const at::Tensor& parents, const at::Tensor& labels, const at::Tensor& token,
              const at::Tensor& lengths, const at::Tensor& times, const at::Tensor& durations);

  /// Returns [B, K, K] bool: the texts of slots i and j have the same tokens.
  at::Tensor equal(const at::Tensor& lengths) const;

  /// Counts pairs of slots i < j that are both `alive` [B, K]. The three counts are all pairs,
  /// pairs with equal `hash` [B, K] but different tokens, and pairs that `merged` [B, K, K] marks
  /// though their tokens differ.
  void count(const at::Tensor& alive, const at::Tensor& hash, const at::Tensor& merged,
             const at::Tensor& lengths);
  struct Counts {
    int64_t pairs = 0, collisions = 0, wrong_merges = 0;
  };
  /// Waits for the device.
  Counts counts() const;

  /// Writes the texts of slots order[b, n] into `list`, whose capacity is at least N.
  void write(const at::Tensor& order, NBest& list) const;

 private:
  at::Tensor tokens_, frames_, durations_;  // [B, K, N] int32
  at::Tensor counts_;                       // [3] int64
};

}  // namespace rtfx
