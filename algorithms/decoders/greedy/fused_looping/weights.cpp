#include "algorithms/decoders/greedy/fused_looping/weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/gpu/rounding.h"
#include "models/checkpoint/precision_of.h"

namespace rtfx::fused {
namespace {

int64_t chunk_elements(const at::Tensor& t) {
  return kChunkBytes / static_cast<int64_t>(t.element_size());
}

/// Reorders [4P, X] or [4P], where the gates come one after the other, into tiles that hold all
/// gates of four units.
at::Tensor interleave_gates(const at::Tensor& t) {
  std::vector<int64_t> sizes = {4, t.size(0) / 16, 4};
  for (int64_t d = 1; d < t.dim(); ++d) sizes.push_back(t.size(d));
  return t.reshape(sizes).transpose(0, 1).reshape(t.sizes());
}

[[noreturn]] void unsupported(const std::string& what) {
  throw UserError("fused_looping", what, "use label_looping for this model");
}

}  // namespace

Weights::Weights(const AcousticModel& model) {
  const Joint& joint = *model.joint;
  view_.precision = precision_of(model.dtype, "fused_looping");
  view_.activation = joint.activation();
  view_.blank = static_cast<int>(model.prediction->blank());
  view_.labels = static_cast<int>(model.config.labels());
  view_.durations = static_cast<int>(model.config.durations.size());
  std::vector<int64_t> durations = {1};  // frames of RNN-T's blank
  if (model.config.is_tdt()) durations = model.config.durations;
  if (model.config.is_multiblank()) durations = model.config.blank_durations;
  if (durations.size() > kMaxDurations)
    unsupported(fmt::format("{} durations of {}, at most {} are possible", durations.size(),
                            view_.durations > 0 ? "labels" : "blanks", kMaxDurations));
  std::copy(durations.begin(), durations.end(), view_.duration_values);

  view_.output = pack(joint.output().weight, kGroup);
  view_.output_bias = keep_floats(joint.output().bias, view_.output.tiles * kTileRows);
  hidden_width_ = view_.output.chunks * chunk_elements(joint.output().weight);
  view_.encoder =
      pack(at::constant_pad_nd(joint.encoder().weight, {0, 0, 0, hidden_width_ - joint.width()}));
  view_.encoder_bias = keep_floats(joint.encoder().bias, hidden_width_);

  if (model.prediction->config().kind == PredictionConfig::Kind::lstm) {
    add_lstm(*model.prediction, joint.prediction());
  } else {
    add_stateless(*model.prediction, joint.prediction());
  }
}

const void* Weights::keep(at::Tensor tensor) {
  kept_.push_back(tensor.contiguous());
  return kept_.back().const_data_ptr();
}

const float* Weights::keep_floats(const at::Tensor& vector, int64_t at_least) {
  const int64_t padding = std::max<int64_t>(0, at_least - vector.size(0));
  return static_cast<const float*>(keep(at::constant_pad_nd(vector.to(at::kFloat), {0, padding})));
}

Matrix Weights::pack(at::Tensor weight, int64_t together) {
  const int64_t elements = chunk_elements(weight), word = elements / 16;  // elements in 4 bytes
  const int64_t rows = round_up<int64_t>(weight.size(0), together * kTileRows),
                columns = round_up(weight.size(1), elements);
  weight = at::constant_pad_nd(weight, {0, columns - weight.size(1), 0, rows - weight.size(0)});
  const int64_t tiles = rows / kTileRows, chunks = columns / elements;
  // [group, tile, r or r + 8, r, chunk, lane of the row, half, word, element of it] ->
  // [group, chunk, tile, half, r, lane, word, r or r + 8, element]
  const at::Tensor packed =
      weight.reshape({tiles / together, together, 2, kTileRows / 2, chunks, 4, 2, 2, word})
          .permute({0, 4, 1, 6, 3, 5, 7, 2, 8});
  return {keep(packed), static_cast<int>(tiles), static_cast<int>(chunks)};
}

void Weights::add_lstm(const PredictionNetwork& network, const Joint::Linear& projection) {
  const auto& layers = network.layers();
  if (layers.size() > kMaxLayers)
    unsupported(fmt::format("{} LSTM layers, at most {} are possible", layers.size(), kMaxLayers));
  if (network.width() % 4 != 0)
    unsupported(fmt::format("an LSTM of {} units, not a multiple of 4", network.width()));
  view_.layers = static_cast<int>(layers.size());
  view_.units = static_cast<int>(network.width());
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = layers[i];
    view_.recurrent[i] = pack(interleave_gates(layer.w_hh));
    const int64_t outputs = view_.recurrent[i].tiles * kTileRows;
    view_.bias_ih[i] = keep_floats(interleave_gates(layer.b_ih), outputs);
    view_.bias_hh[i] = keep_floats(interleave_gates(layer.b_hh), outputs);
    if (i > 0) view_.input[i] = pack(interleave_gates(layer.w_ih));
  }
  // The input of the first layer depends on the label alone.
  const at::Tensor gates = at::linear(network.embeddings()[0], layers[0].w_ih);  // [V+1, 4P]
  view_.first_gates = keep(interleave_gates(gates.t()).t());
  view_.projection = pack(projection.weight);
  view_.projection_bias = keep_floats(
      projection.bias, std::max<int64_t>(view_.projection.tiles * kTileRows, hidden_width_));
  state_width_ = view_.projection.chunks * chunk_elements(projection.weight);
}

void Weights::add_stateless(const PredictionNetwork& network, const Joint::Linear& projection) {
  const auto& config = network.config();
  if (config.context_size > kMaxContext)
    unsupported(fmt::format("a prediction network over {} labels, at most {} are possible",
                            config.context_size, kMaxContext));
  // The norm of one label's embedding depends on that label alone, so the table holds the result.
  const bool norm_of_several = config.layer_norm && config.context_size > 1;
  view_.norm_width = norm_of_several ? static_cast<int>(config.width) : 0;
  const at::Tensor weight = projection.weight.to(at::kFloat);
  const auto keep_rows = [&](const at::Tensor& rows) {
    return static_cast<const float*>(
        keep(at::constant_pad_nd(rows, {0, hidden_width_ - rows.size(-1)})));
  };
  if (norm_of_several) view_.ones_row = keep_rows(weight.sum(1));
  view_.context = static_cast<int>(config.context_size);
  view_.projection_bias = keep_floats(projection.bias, hidden_width_);
  int64_t first = 0;
  for (int k = 0; k < view_.context; ++k) {
    at::Tensor table = network.embeddings()[static_cast<size_t>(k)];
    const int64_t width = table.size(1);
    if (config.layer_norm && !norm_of_several) table = at::layer_norm(table, {width});
    const at::Tensor exact = table.to(at::kFloat);
    view_.label_rows[k] = keep_rows(at::linear(exact, weight.narrow(1, first, width)));
    if (norm_of_several) {
      view_.label_moments[k] =
          static_cast<const float*>(keep(at::stack({exact.sum(1), exact.square().sum(1)}, 1)));
    }
    first += width;
  }
}

at::Tensor Weights::frames_in(const at::Tensor& frames) const {
  const int64_t vector = static_cast<int64_t>(sizeof(uint4)) / frames.element_size();
  const int64_t padding = round_up(frames.size(2), vector) - frames.size(2);
  if (padding > 0) return at::constant_pad_nd(frames, {0, padding});
  const at::Tensor dense = frames.contiguous();
  // A caller's frames may begin anywhere in a larger tensor. New memory is aligned.
  const auto address = reinterpret_cast<uintptr_t>(dense.const_data_ptr());
  return address % sizeof(uint4) == 0 ? dense : dense.clone();
}

}  // namespace rtfx::fused
