// The state of each row that a search keeps from one piece of an utterance to the next.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rtfx {

/// [B, ...] each, in an order of the search's own. Without any: rows at the start of an utterance.
using RowState = std::vector<at::Tensor>;

/// Passes through the tensors of a search in one order, to put a state into them or to take it out:
///
///   void walk(StateWalk& walk) { walk(time); walk(prediction.state.h, 1); }
class StateWalk {
 public:
  static StateWalk load(const RowState& state) { return StateWalk(&state, nullptr); }
  static StateWalk save(RowState& state) { return StateWalk(nullptr, &state); }

  /// Rows lie along `dimension` of the tensor, `per_row` of them for each row of the batch. Loading
  /// writes into the tensor in place. Undefined tensors are passed over.
  void operator()(at::Tensor& tensor, int64_t dimension = 0, int64_t per_row = 1);

  /// int32 numbers, `per_row` of each row, that a batch may lack: those of an undefined tensor are
  /// zeros. `rows`: any tensor with as many rows as the batch, on its device.
  void or_zeros(at::Tensor& tensor, const at::Tensor& rows, int64_t per_row = 1);

  bool loads() const { return from_ != nullptr; }

 private:
  StateWalk(const RowState* from, RowState* to) : from_(from), to_(to) {}
  const RowState* from_;
  RowState* to_;
  size_t next_ = 0;
};

}  // namespace rtfx
