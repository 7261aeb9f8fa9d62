// Contextual biasing of the rows of a batch, as the device reads it. Each row may add scores to its
// tokens by a model of its own, and may forbid tokens. The models of all rows stand in one set of
// tables. compile_bias() makes a model from phrases and scripts, and DeviceBiasTables lays out the
// models of all rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "algorithms/shared/biasing/compiled_bias.h"
#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// Returns whether the bias of a row has phrases; false for null.
bool has_tree(const std::shared_ptr<const CompiledBias>& bias);

/// R rows; all tensors are on one device. The states of a row are relative to its root, and 0 is
/// the start. So another row can go on from a state, also after the tables were laid out anew. No
/// member waits for the device, and all can be recorded into a graph.
struct DeviceBias {
  /// The tables of all models, null if no row has a model. State 0 of the tables belongs to no row:
  /// it leads back to itself with score 0. The arcs of a model lead to its own states. A token for
  /// which a model has no arc leads to state 0, which then stands for the row's root.
  std::shared_ptr<const NgramLm> models;
  at::Tensor roots;  // [R] int32, states of the tables; 0 for a row without a model
  /// [R] float32, for beams of transducers: the weight with which a row's model rescales blank
  /// along with the tokens (rescale_blank() of fusion.h). Undefined if no row has one.
  at::Tensor blank_weights;
  at::Tensor forbidden;  // [R, V] bool; undefined: every row may have all tokens

  bool has_models() const { return models != nullptr; }
  bool has_any() const { return has_models() || forbidden.defined(); }

  at::Tensor initial_states() const;                        // [R] int32
  at::Tensor scores(const at::Tensor& states) const;        // [R, V] float32
  at::Tensor final_scores(const at::Tensor& states) const;  // [R] float32, due at a text's end
  /// Returns the states after labels [R] int64. A label that is no token, such as -1, keeps the
  /// state.
  at::Tensor next_states(const at::Tensor& states, const at::Tensor& labels) const;

  /// Returns each row `times` times, the copies of a row one after the other.
  DeviceBias repeated(int64_t times) const;
};

/// The phrase trees and token masks of the rows of a batch, on the device. Their addresses do not
/// change while new ones fit into the memory, so that recorded searches can read them.
class DeviceBiasTables {
 public:
  DeviceBiasTables() = default;
  DeviceBiasTables(int64_t vocabulary, at::Device device)
      : vocabulary_(vocabulary), device_(device) {}

  /// Loads the bias of each row of the next batch; null stands for none. Trees that are on the
  /// device already are not copied again. Trees that no row uses are removed once there is no room.
  /// Enqueues copies and does not wait. Returns true where a recorded search must be recorded
  /// again, because memory has moved or there are trees or masks for the first time. After an
  /// exception, it must be recorded again, too.
  bool load(const std::vector<std::shared_ptr<const CompiledBias>>& rows);

  /// Makes room for `rows` rows without a bias. Returns true where load() does.
  bool reserve_rows(int64_t rows);

  /// Returns the bias of the first `count` rows. Rows behind those of the last load() have some
  /// root within the tables. They may be searched, as a recorded search does, but their results
  /// mean nothing.
  DeviceBias rows(int64_t count) const;

 private:
  struct Place {
    std::shared_ptr<const CompiledBias> bias;
    int32_t root = 0;
  };
  void allocate(int64_t states, int64_t arcs);
  void append(std::map<const CompiledBias*, Place>& places);
  bool place(const std::vector<std::shared_ptr<const CompiledBias>>& rows);

  int64_t vocabulary_ = 0;
  at::Device device_{at::kCPU};
  std::shared_ptr<const NgramLm> models_;
  int64_t states_ = 0, arcs_ = 0;  // in use; state 0 belongs to no row
  std::map<const CompiledBias*, Place> places_;
  at::Tensor roots_;          // [most rows] int32
  at::Tensor blank_weights_;  // [most rows] float32; undefined until a row has one
  at::Tensor forbidden_;      // [most rows, V] bool; undefined until a row has a mask
  std::vector<std::shared_ptr<const CompiledBias>> loaded_;
};

}  // namespace rtfx
