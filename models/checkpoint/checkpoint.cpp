#include "models/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "models/checkpoint/score_dtype.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

using Shape = std::vector<int64_t>;
using Shapes = std::map<std::string, Shape>;

void add_affine(Shapes& shapes, const std::string& name, Shape weight, bool bias) {
  const int64_t rows = weight.front();
  shapes[name + ".weight"] = std::move(weight);
  if (bias) shapes[name + ".bias"] = {rows};
}

void add_stacking(Shapes& shapes, const EncoderConfig& e, int64_t mel_bins) {
  const std::string prefix = "encoder.pre_encode";
  add_affine(shapes, e.subsampling_factor == 1 ? prefix : prefix + ".proj_out",
             {e.width, e.subsampling_factor * mel_bins}, true);
  if (e.stacking_norm) add_affine(shapes, prefix + ".pre_norm", {mel_bins}, true);
}

void add_convolutions(Shapes& shapes, const EncoderConfig& e, int64_t bins,
                      const std::string& prefix) {
  const std::string conv = prefix + "conv.";
  const int64_t c = e.subsampling_channels;
  add_affine(shapes, conv + "0", {c, 1, 3, 3}, true);
  int64_t index = 2;
  for (int64_t factor = 4; factor <= e.subsampling_factor; factor *= 2) {
    if (e.depthwise_subsampling) {
      add_affine(shapes, conv + std::to_string(index), {c, 1, 3, 3}, true);
      add_affine(shapes, conv + std::to_string(index + 1), {c, c, 1, 1}, true);
      index += 3;
    } else {
      add_affine(shapes, conv + std::to_string(index), {c, c, 3, 3}, true);
      index += 2;
    }
  }
  add_affine(shapes, prefix + "out", {e.width, c * e.convolved(bins)}, true);
}

void add_front_end(Shapes& shapes, const EncoderConfig& e, int64_t mel_bins) {
  if (e.front_end == EncoderConfig::FrontEnd::stacking) {
    add_stacking(shapes, e, mel_bins);
  } else {
    add_convolutions(shapes, e, mel_bins, "encoder.pre_encode.");
  }
}

void add_reduction(Shapes& shapes, const EncoderConfig& e) {
  if (e.reduction != EncoderConfig::Reduction::striding) return;
  add_convolutions(shapes, e.reduction_convolutions(), e.width,
                   "encoder.reduction_subsampling.reduction_enc.");
}

void add_attention(Shapes& shapes, const EncoderConfig& e, const std::string& attention) {
  const int64_t d = e.width;
  for (const char* linear : {"linear_q", "linear_k", "linear_v", "linear_out"})
    add_affine(shapes, attention + linear, {d, d}, e.use_bias);
  if (e.positions != EncoderConfig::Positions::absolute) {
    shapes[attention + "linear_pos.weight"] = {d, d};
    shapes[attention + "pos_bias_u"] = {e.heads, d / e.heads};
    shapes[attention + "pos_bias_v"] = {e.heads, d / e.heads};
  }
  if (e.global_attn_separate) {
    for (const char* linear : {"global_q", "global_k", "global_v"})
      add_affine(shapes, attention + linear, {d, d}, e.use_bias);
  }
}

/// Adds the shapes of a norm. In checkpoints, every kind of norm has the name of batch norm.
void add_convolution_norm(Shapes& shapes, const EncoderConfig& e, const std::string& name) {
  using Norm = EncoderConfig::ConvolutionNorm;
  if (e.conv_norm != Norm::instance) add_affine(shapes, name, {e.width}, true);
  if (e.conv_norm == Norm::batch) {
    shapes[name + ".running_mean"] = {e.width};
    shapes[name + ".running_var"] = {e.width};
  }
}

void add_layer(Shapes& shapes, const EncoderConfig& e, const std::string& layer) {
  const int64_t d = e.width;
  for (const char* norm :
       {"norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out"}) {
    add_affine(shapes, layer + norm, {d}, true);
  }
  for (const char* ff : {"feed_forward1", "feed_forward2"}) {
    add_affine(shapes, layer + ff + ".linear1", {e.feed_forward_expansion * d, d}, e.use_bias);
    add_affine(shapes, layer + ff + ".linear2", {d, e.feed_forward_expansion * d}, e.use_bias);
  }
  add_attention(shapes, e, layer + "self_attn.");
  add_affine(shapes, layer + "conv.pointwise_conv1", {2 * d, d, 1}, e.use_bias);
  add_affine(shapes, layer + "conv.depthwise_conv", {d, 1, e.conv_kernel}, e.use_bias);
  add_affine(shapes, layer + "conv.pointwise_conv2", {d, d, 1}, e.use_bias);
  add_convolution_norm(shapes, e, layer + "conv.batch_norm");
}

/// Returns the widths of the stateless network's tables, newest label first.
Shape stateless_widths(const PredictionConfig& p) {
  const int64_t older = p.width / 2 / p.context_size;
  Shape widths(static_cast<size_t>(p.context_size), older);
  widths.front() = p.width - older * (p.context_size - 1);
  return widths;
}

void add_prediction(Shapes& shapes, const PredictionConfig& p, int64_t vocabulary) {
  const std::string prefix = "decoder.prediction.";
  if (p.kind == PredictionConfig::Kind::stateless) {
    const Shape widths = stateless_widths(p);
    for (size_t i = 0; i < widths.size(); ++i) {
      shapes[fmt::format("{}embeds.{}.weight", prefix, i)] = {vocabulary + 1, widths[i]};
    }
    return;
  }
  shapes[prefix + "embed.weight"] = {vocabulary + 1, p.width};
  for (int64_t layer = 0; layer < p.layers; ++layer) {
    for (const char* name : {"ih", "hh"}) {
      shapes[fmt::format("{}dec_rnn.lstm.weight_{}_l{}", prefix, name, layer)] = {4 * p.width,
                                                                                  p.width};
      shapes[fmt::format("{}dec_rnn.lstm.bias_{}_l{}", prefix, name, layer)] = {4 * p.width};
    }
  }
}

bool unused_in_inference(const std::string& name) {
  for (const char* prefix :
       {"spec_augment", "loss.", "ctc_loss.", "wer.", "_wer.", "ctc_wer.", "encoder.pos_enc."}) {
    if (name.starts_with(prefix)) return true;
  }
  return name.ends_with(".num_batches_tracked") || name.starts_with("preprocessor.");
}

bool is_statistic(const std::string& name) { return name.find(".running_") != std::string::npos; }

}  // namespace

std::map<std::string, std::vector<int64_t>> expected_tensors(const ModelConfig& config) {
  Shapes shapes;
  add_front_end(shapes, config.encoder, config.features.mel_bins);
  add_reduction(shapes, config.encoder);
  for (int64_t i = 0; i < config.encoder.layers; ++i) {
    add_layer(shapes, config.encoder, fmt::format("encoder.layers.{}.", i));
  }
  const int64_t d = config.encoder.frame_width();
  if (config.encoder.output_width > 0)
    add_affine(shapes, "encoder.out_proj", {d, config.encoder.width}, true);
  if (const PromptConfig& p = config.prompt; p.count > 0) {
    add_affine(shapes, "prompt_kernel.0", {p.width, d + p.count}, true);
    add_affine(shapes, "prompt_kernel.2", {d, p.width}, true);
  }
  if (config.has_ctc) add_affine(shapes, "ctc", {config.vocabulary + 1, d, 1}, true);
  if (config.has_transducer) {
    add_prediction(shapes, config.prediction, config.vocabulary);
    const auto columns = config.labels() + static_cast<int64_t>(config.durations.size());
    add_affine(shapes, "joint.enc", {config.joint_width, d}, true);
    add_affine(shapes, "joint.pred", {config.joint_width, config.prediction.width}, true);
    add_affine(shapes, "joint.joint_net", {columns, config.joint_width}, true);
  }
  return shapes;
}

int64_t count_parameters(const ModelConfig& config) {
  int64_t total = 0;
  for (const auto& [name, shape] : expected_tensors(config)) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    if (!is_statistic(name)) total += size;
  }
  return total;
}

namespace {

std::string without_wrappers(std::string name) {
  constexpr std::string_view kCompiled = "_orig_mod.", kDistributed = "module.";
  for (size_t at = 0; (at = name.find(kCompiled)) != name.npos;) name.erase(at, kCompiled.size());
  while (name.starts_with(kDistributed)) name.erase(0, kDistributed.size());
  return name;
}

}  // namespace

StateDict rename_tensors(StateDict file) {
  static const std::vector<std::pair<std::string, std::string>> kRenames = {
      {"joint.joint_net.1.", "joint.joint_net."},
      {"joint.joint_net.2.", "joint.joint_net."},
      {"ctc_decoder.decoder_layers.0.", "ctc."},
      {"decoder.decoder_layers.0.", "ctc."}};
  StateDict renamed;
  for (const auto& [given, tensor] : file) {
    const std::string name = without_wrappers(given);
    std::string canonical = name;
    for (const auto& [from, to] : kRenames) {
      if (name.starts_with(from)) canonical = to + name.substr(from.size());
    }
    renamed[canonical] = tensor;
  }
  return renamed;
}

StateDict canonical_state_dict(StateDict file, const ModelConfig& config, const std::string& where,
                               std::vector<std::string>* ignored) {
  StateDict all = rename_tensors(std::move(file));
  StateDict kept;
  for (const auto& [name, shape] : expected_tensors(config)) {
    const auto found = all.find(name);
    if (found == all.end()) {
      throw UserError(where, fmt::format("tensor '{}' is missing", name),
                      "the checkpoint and its YAML do not belong together, or it is incomplete");
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      throw UserError(where,
                      fmt::format("tensor '{}' has shape [{}], expected [{}]", name,
                                  fmt::join(found->second.sizes(), ", "), fmt::join(shape, ", ")),
                      "the checkpoint and its YAML do not belong together");
    }
    kept[name] = found->second;
    all.erase(found);
  }
  for (const auto& [name, tensor] : all) {
    if (name.starts_with("preprocessor.featurizer.")) {
      kept[name] = tensor;
    } else if (!unused_in_inference(name)) {
      throw UserError(where, fmt::format("tensor '{}' belongs to no part that rtfx knows", name),
                      "this kind of model is not supported");
    } else if (ignored != nullptr) {
      ignored->push_back(name);
    }
  }
  return kept;
}

const std::string& Checkpoint::sha256() const {
  if (!checksum.empty()) return checksum;
  if (files.size() == 1) return checksum = sha256_file(files.front());
  std::string all;
  for (const auto& file : files) all += file.filename().string() + " " + sha256_file(file) + "\n";
  return checksum = rtfx::sha256(all);
}

namespace {

void require_finite(const std::string& name, const at::Tensor& tensor) {
  const auto place = first_not_finite(tensor);
  if (!place) return;
  const double value = tensor.contiguous().view(-1)[*place].item<double>();
  throw NotFinite(fmt::format("tensor '{}' holds {} at element {}", name, value, *place));
}

}  // namespace

at::Tensor WeightReader::raw(const std::string& name) const {
  const auto found = weights_.find(prefix_ + name);
  if (found == weights_.end()) return {};
  require_finite(found->first, found->second);
  return found->second.to(score_dtype(dtype_));
}

at::Tensor WeightReader::get(const std::string& name) const {
  at::Tensor tensor = optional(name);
  RTFX_CHECK(tensor.defined(), "no tensor " + prefix_ + name);
  return tensor;
}

at::Tensor WeightReader::optional(const std::string& name) const {
  const auto found = weights_.find(prefix_ + name);
  if (found == weights_.end()) return {};
  const bool copied = device_ != found->second.device() || dtype_ != found->second.scalar_type();
  if (copied) fetch_pages(found->second);
  require_finite(found->first, found->second);
  at::Tensor placed = place(found->second);
  if (!placed.is_alias_of(found->second)) release_pages(found->second);
  return placed;
}

at::Tensor WeightReader::joined(const std::vector<std::string>& names) const {
  std::vector<at::Tensor> parts;
  for (const std::string& name : names) {
    if (at::Tensor tensor = optional(name); tensor.defined()) parts.push_back(std::move(tensor));
  }
  if (parts.empty()) return {};
  at::Tensor whole = at::cat(parts);
  for (const at::Tensor& part : parts) release_pages(part);
  return whole;
}

at::Tensor WeightReader::place(const at::Tensor& tensor) const {
  return tensor.to(device_, dtype_).contiguous();
}

}  // namespace rtfx
