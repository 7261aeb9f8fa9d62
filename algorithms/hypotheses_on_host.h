// Transfer of results to the host. Hypotheses::clone() and to_host() are made of these classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/hypotheses.h"

namespace rtfx {

/// The memory that several tensors are views of.
class CommonBlock {
 public:
  /// Returns the block of the tensors, or nullopt if they are views of several blocks. Undefined
  /// tensors do not count.
  static std::optional<CommonBlock> find(const std::vector<at::Tensor>& tensors);

  /// Returns the block from its start to the end of the last tensor, [n] uint8.
  const at::Tensor& bytes() const { return bytes_; }

  /// Returns the view into `copy`, a copy of bytes(), at the place that `tensor` has in the block.
  static at::Tensor view_in(const at::Tensor& copy, const at::Tensor& tensor);

 private:
  at::Tensor bytes_;
};

/// Reads a result as n-best lists. A result without lists has one entry for each row.
class HostLists {
 public:
  explicit HostLists(const Hypotheses& hypotheses);

  /// Copies everything to the host, by the quicker of the two ways below. Waits for the device
  /// once, or twice where the results have room for more than 1 MiB of slots. Does nothing if they
  /// are on the host.
  void copy_to_host();

  /// Copies the block of memory that all tensors are views of. Does nothing and returns false if
  /// there is none, or if it is larger than 1 MiB.
  bool copy_block();
  /// Gathers the first `longest` slots of each entry with one kernel, and copies them at once.
  void copy_slots(int64_t longest);

  int64_t batch() const { return entries_.lengths.size(0); }
  int64_t size() const { return entries_.lengths.size(1); }  // entries of a list

  /// Returns the score of entry n of row b. The result must be on the host.
  float score(int64_t b, int64_t n) const;
  /// Returns entry n of row b. Throws WrongResult where its length is beyond the slots.
  Hypothesis entry(int64_t b, int64_t n) const;

 private:
  std::vector<at::Tensor*> tensors();

  NBest entries_;
  at::Tensor nan_;    // [B] bool
  int64_t room_ = 0;  // slots of an entry, including those that are not copied
};

}  // namespace rtfx
