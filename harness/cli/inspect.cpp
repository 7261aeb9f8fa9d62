#include "harness/cli/inspect.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/printable.h"
#include "models/load_checkpoint.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr int64_t kPieces = 12;  // of the vocabulary are printed, as a sample

std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "fp32";
    case at::kHalf:
      return "fp16";
    case at::kBFloat16:
      return "bf16";
    case at::kDouble:
      return "fp64";
    default:
      return c10::toString(type);
  }
}

/// Bytes of the weights by type: {"fp16": 26123456}.
json stored_bytes(const StateDict& weights) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [name, tensor] : weights)
    bytes[type_name(tensor.scalar_type())] += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

json features_record(const FeatureConfig& f) {
  static constexpr const char* kNames[] = {"none", "per_feature", "all_features", "fixed"};
  return {{"sample_rate", f.sample_rate},
          {"mel_bins", f.mel_bins},
          {"n_fft", f.n_fft},
          {"window_samples", f.window},
          {"hop_samples", f.hop},
          {"window", f.window_shape},
          {"preemphasis", f.preemphasis},
          {"normalize", kNames[static_cast<size_t>(f.normalization)]}};
}

json encoder_record(const ModelConfig& config) {
  const EncoderConfig& e = config.encoder;
  static constexpr const char* kStyles[] = {"regular", "chunked_limited",
                                            "chunked_limited_with_rc"};
  static constexpr const char* kPositions[] = {"rel_pos", "rel_pos_local_attn", "abs_pos"};
  static constexpr const char* kNorms[] = {"batch_norm", "fused_batch_norm", "layer_norm",
                                           "group_norm", "instance_norm"};
  const bool stacking = e.front_end == EncoderConfig::FrontEnd::stacking;
  return {{"layers", e.layers},
          {"width", e.width},
          {"heads", e.heads},
          {"feed_forward_expansion", e.feed_forward_expansion},
          {"conv_kernel", e.conv_kernel},
          {"conv_norm", kNorms[static_cast<size_t>(e.conv_norm)]},
          {"conv_right_context",
           e.conv_right_context < 0 ? (e.conv_kernel - 1) / 2 : e.conv_right_context},
          {"use_bias", e.use_bias},
          {"xscaling", e.x_scaling},
          {"subsampling", stacking                  ? "stacking"
                          : e.depthwise_subsampling ? "dw_striding"
                                                    : "striding"},
          {"subsampling_factor", e.subsampling_factor},
          {"causal_downsampling", e.causal_downsampling},
          {"frame_seconds", config.frame_seconds()},
          {"self_attention_model", kPositions[static_cast<size_t>(e.positions)]},
          {"att_context_style", kStyles[static_cast<size_t>(e.context_style)]},
          {"att_context_size", e.context},
          {"att_context_sizes", e.contexts},
          {"global_tokens", e.global_tokens}};
}

json heads_record(const ModelConfig& config) {
  json record = {{"ctc", config.has_ctc}, {"transducer", config.has_transducer}};
  if (!config.has_transducer) return record;
  const PredictionConfig& p = config.prediction;
  const bool lstm = p.kind == PredictionConfig::Kind::lstm;
  record["prediction"] = {{"kind", lstm ? "lstm" : "stateless"},
                          {"width", p.width},
                          {lstm ? "layers" : "context", lstm ? p.layers : p.context_size}};
  record["joint"] = {{"width", config.joint_width}, {"activation", config.joint_activation}};
  record["durations"] = config.durations;
  record["max_symbols"] = config.max_symbols;
  return record;
}

json decoders_for(const ModelConfig& config) {
  const std::vector<std::string> kinds = config.kinds();
  json names = json::array();
  for (const DecoderEntry* entry : decoder_entries()) {
    const auto served = entry->make(nullptr, "")->describe().model_kinds;
    const bool serves = std::ranges::any_of(served, [&](const std::string& kind) {
      return std::ranges::find(kinds, kind) != kinds.end();
    });
    if (serves) names.push_back(entry->name);
  }
  return names;
}

json vocabulary_record(const Tokenizer& tokenizer) {
  json pieces = json::array();
  for (int32_t id = 0; id < std::min(kPieces, tokenizer.size()); ++id)
    pieces.push_back(tokenizer.piece(id));
  return {{"kind", tokenizer.kind()}, {"tokens", tokenizer.size()}, {"first", pieces}};
}

std::string list(const json& values) {
  std::vector<std::string> texts;
  for (const json& value : values)
    texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return fmt::format("{}", fmt::join(texts, ", "));
}

void line(const char* name, const std::string& text) {
  fmt::print("  {:<12} {}\n", name, printable(text));
}

std::string encoder_line(const json& e) {
  return fmt::format("{} layers, width {}, {} heads, kernel {} ({}), {} {}x, {:g} ms a frame",
                     e["layers"].get<int64_t>(), e["width"].get<int64_t>(),
                     e["heads"].get<int64_t>(), e["conv_kernel"].get<int64_t>(),
                     e["conv_norm"].get<std::string>(), e["subsampling"].get<std::string>(),
                     e["subsampling_factor"].get<int64_t>(),
                     1e3 * e["frame_seconds"].get<double>());
}

std::string context_line(const json& e) {
  std::string text =
      fmt::format("{}, {} {}", e["self_attention_model"].get<std::string>(),
                  e["att_context_style"].get<std::string>(), e["att_context_size"].dump());
  if (e["att_context_sizes"].size() > 1) text += "; offered: " + list(e["att_context_sizes"]);
  if (const auto tokens = e["global_tokens"].get<int64_t>(); tokens > 0)
    text += fmt::format("; {} global tokens", tokens);
  if (e["causal_downsampling"].get<bool>()) text += "; causal down-sampling";
  return text;
}

void print_lines(const std::string& file, const json& m) {
  fmt::print("{}\n", printable(file));
  line("format", m["format"]);
  line("class", m["class"]);
  line("kind", list(m["kinds"]));
  std::string stored;
  for (const auto& [type, bytes] : m["stored_bytes"].items())
    stored +=
        fmt::format("{}{:.1f} MB {}", stored.empty() ? "" : ", ", bytes.get<double>() / 1e6, type);
  line("parameters",
       fmt::format("{:.4g} million; stored as {}", m["parameters"].get<double>() / 1e6, stored));
  const json& f = m["features"];
  line("features", fmt::format("{} mel bins, window {} and hop {} samples at {} Hz, normalize {}",
                               f["mel_bins"].get<int64_t>(), f["window_samples"].get<int64_t>(),
                               f["hop_samples"].get<int64_t>(), f["sample_rate"].get<int64_t>(),
                               f["normalize"].get<std::string>()));
  line("encoder", encoder_line(m["encoder"]));
  line("attention", context_line(m["encoder"]));
  const json& h = m["heads"];
  if (h["transducer"].get<bool>()) {
    const json& p = h["prediction"];
    const bool lstm = p["kind"] == "lstm";
    line("prediction",
         fmt::format("{}, width {}, {} {}", p["kind"].get<std::string>(), p["width"].get<int64_t>(),
                     p[lstm ? "layers" : "context"].get<int64_t>(), lstm ? "layers" : "labels"));
    line("joint",
         fmt::format("width {}, {}; at most {} symbols a frame", h["joint"]["width"].get<int64_t>(),
                     h["joint"]["activation"].get<std::string>(), h["max_symbols"].get<int64_t>()));
    if (!h["durations"].empty()) line("durations", list(h["durations"]));
  }
  const json& v = m["vocabulary"];
  line("vocabulary", fmt::format("{} tokens, {}: {} ...", v["tokens"].get<int64_t>(),
                                 v["kind"].get<std::string>(),
                                 v["first"].dump(-1, ' ', false, json::error_handler_t::replace)));
  line("decoders", list(m["decoders"]));
  for (const json& notice : m["notices"]) line("notice", notice);
  if (!m["ignored"].empty()) {
    line("ignored", fmt::format("{} tensors that decoding does not need ({}, ...)",
                                m["ignored"].size(), m["ignored"][0].get<std::string>()));
  }
}

}  // namespace

json describe_model(const Checkpoint& c) {
  return {{"format", c.format},
          {"class", c.config.target},
          {"kinds", c.config.kinds()},
          {"parameters", c.parameters},
          {"stored_bytes", stored_bytes(c.weights)},
          {"features", features_record(c.config.features)},
          {"encoder", encoder_record(c.config)},
          {"heads", heads_record(c.config)},
          {"vocabulary", vocabulary_record(*c.tokenizer)},
          {"decoders", decoders_for(c.config)},
          {"notices", c.notices},
          {"ignored", c.ignored}};
}

int inspect(const std::filesystem::path& model, bool as_json) {
  json record = describe_model(load_checkpoint(model));
  record["file"] = model.string();
  if (as_json) {
    fmt::print("{}\n", record.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    print_lines(model.string(), record);
  }
  return kOk;
}

}  // namespace rtfx
