#include "models/settings/config_reader.h"

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers.h"
#include "models/checkpoint/config.h"
#include "models/settings/config_source.h"

namespace rtfx {

namespace {

constexpr const char* kNotSupported =
    "rtfx decodes CTC, RNN-T and TDT models with a Conformer or FastConformer encoder";

struct Kind {
  const char* sign;  // part of a class name, or how a tensor's name begins
  const char* name;
};

constexpr Kind kClasses[] = {
    {"MultiTask", "an attention encoder-decoder"},
    {"EncDecTransf", "an attention encoder-decoder"},
    {"MultiTalker", "a multi-talker model, which wants each speaker's activity too"},
    {"SelfSupervised", "a self-supervised encoder without a decoder"},
    {"MaskedTokenPred", "a self-supervised encoder without a decoder"},
    {"SpeakerLabel", "a speaker recognition model"},
    {"Sortformer", "a diarization model"},
    {"Classification", "a classification model"},
    {"RegressionModel", "a regression model"},
    {"SLU", "a spoken language understanding model"},
};

constexpr Kind kTensors[] = {
    {"transf_decoder.", "an attention encoder-decoder"},
    {"spk_kernels.", "a multi-talker model, which wants each speaker's activity too"},
    {"joint.blank_pred.", "a hybrid autoregressive transducer (HAT)"},
    {"decoder_ssl.", "a self-supervised encoder without a decoder"},
};

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

[[noreturn]] void refuse(const ConfigSource& source, const std::string& sign,
                         const std::string& name) {
  source.refuse(fmt::format("{}: this is {}", sign, name), kNotSupported);
}

void check_class(const ConfigSource& source) {
  const std::string target = source.yaml.text("target").value_or("");
  for (const Kind& kind : kClasses) {
    if (target.find(kind.sign) != std::string::npos)
      refuse(source, "unsupported model class " + target, kind.name);
  }
  for (const Kind& kind : kTensors) {
    if (source.has_prefix(kind.sign))
      refuse(source, fmt::format("tensors {}*", kind.sign), kind.name);
  }
  if (source.yaml.has("transf_decoder"))
    refuse(source, "transf_decoder in the YAML", "an attention encoder-decoder");
}

void check_parts(const ConfigSource& source) {
  const auto encoder = source.yaml.text("encoder._target_");
  const std::string name = encoder ? last_name(*encoder) : "ConformerEncoder";
  if (name != "ConformerEncoder" && name != "ConformerEncoderAdapter")
    source.refuse(fmt::format("unsupported encoder {}", name), kNotSupported);
  const auto features = source.yaml.text("preprocessor._target_");
  if (features && last_name(*features) != "AudioToMelSpectrogramPreprocessor") {
    source.refuse(fmt::format("unsupported preprocessor {}", last_name(*features)),
                  "rtfx computes the features of AudioToMelSpectrogramPreprocessor");
  }
  const std::string joint = source.yaml.text("joint._target_").value_or("");
  if (joint.find("HATJoint") != std::string::npos)
    refuse(source, "joint " + last_name(joint), "a hybrid autoregressive transducer (HAT)");
  if (!joint.empty() && last_name(joint) != "RNNTJoint" && last_name(joint) != "SampledRNNTJoint")
    source.refuse(fmt::format("unsupported joint {}", last_name(joint)), kNotSupported);
}

void check_tensors(const ConfigSource& source) {
  for (const auto& [name, tensor] : source.weights) {
    const bool counter = name.ends_with("num_batches_tracked");
    if (tensor.is_quantized() || name.find("_quantizer") != std::string::npos ||
        name.find("_packed_params") != std::string::npos ||
        (tensor.dim() > 0 && !counter && !tensor.is_floating_point() &&
         name.ends_with(".weight"))) {
      refuse(source, fmt::format("tensor '{}' of type {}", name, toString(tensor.scalar_type())),
             "a quantised export");
    }
    if (name.find(".adapter_layer.") != std::string::npos)
      refuse(source, fmt::format("tensor '{}'", name), "a model with adapter modules");
  }
}

/// Throws UserError unless this is a model with a Conformer encoder and a CTC head or an RNN-T or
/// TDT joint. The error names the kind of model.
void refuse_foreign_models(const ConfigSource& source) {
  check_class(source);
  check_parts(source);
  check_tensors(source);
  if (source.has("ctc.weight") || source.has("joint.joint_net.weight")) return;
  source.refuse("neither a CTC head nor a joint network among the tensors", kNotSupported);
}

const std::string kPreprocessor = "preprocessor.";
const std::string kBank = "preprocessor.featurizer.fb";
const std::string kWindow = "preprocessor.featurizer.window";

// The limits keep a damaged YAML from asking for unlimited memory.
constexpr int64_t kMostSamples = 65536;  // samples of a window, a stride and a transform
constexpr int64_t kMostBins = 4096;

class FeatureReader {
 public:
  explicit FeatureReader(const ConfigSource& source) : source_(source), yaml_(source.yaml) {}

  FeatureConfig read() {
    yaml_.require("sample_rate", {"16000"});
    yaml_.require(kPreprocessor + "sample_rate", {"16000"});
    yaml_.require(kPreprocessor + "frame_splicing", {"1"});
    yaml_.require(kPreprocessor + "exact_pad", {"false", "False"});
    read_sizes();
    read_window();
    read_filterbank();
    read_logarithm();
    read_normalization();
    if (yaml_.states_null(kPreprocessor + "preemph")) f_.preemphasis = 0;
    f_.preemphasis = finite("preemph", f_.preemphasis);
    f_.magnitude_power = finite("mag_power", f_.magnitude_power);
    return f_;
  }

 private:
  double finite(const std::string& key, double otherwise) const {
    const double value = yaml_.number(kPreprocessor + key).value_or(otherwise);
    if (!std::isfinite(value))
      source_.refuse(fmt::format("{}{} is {}", kPreprocessor, key, value), "give a number");
    return value;
  }

  /// Reads a number of samples. The YAML may give it in seconds instead; a fraction of a sample is
  /// dropped.
  int64_t samples(const std::string& in_samples, const std::string& in_seconds, double otherwise) {
    const auto given = yaml_.integer(kPreprocessor + in_samples);
    const double count = given ? static_cast<double>(*given)
                               : yaml_.number(kPreprocessor + in_seconds).value_or(otherwise) *
                                     static_cast<double>(f_.sample_rate);
    if (!(count >= 1 && count <= static_cast<double>(kMostSamples))) {
      source_.refuse(
          fmt::format("{}{} is {} samples", kPreprocessor, given ? in_samples : in_seconds, count),
          fmt::format("1 to {} are possible", kMostSamples));
    }
    return static_cast<int64_t>(count);
  }

  void read_sizes() {
    f_.window = samples("n_window_size", "window_size", 0.02);
    f_.hop = samples("n_window_stride", "window_stride", 0.01);
    int64_t power_of_two = 1;
    while (power_of_two < f_.window) power_of_two *= 2;
    f_.n_fft = source_.integer(kPreprocessor + "n_fft", power_of_two, 2, kMostSamples);
    if (f_.n_fft % 2 != 0 || f_.n_fft < f_.window) {
      source_.refuse(
          fmt::format("{}n_fft is {}, the window {}", kPreprocessor, f_.n_fft, f_.window),
          "it must be even and no shorter than the window");
    }
    f_.mel_bins = source_.integer(kPreprocessor + "features", f_.mel_bins, 1, kMostBins);
  }

  void read_window() {
    // NeMo makes no window for other words, and fails when it needs one.
    yaml_.require(kPreprocessor + "window", {"hann", "hamming", "blackman", "bartlett", "none"});
    f_.window_shape = yaml_.states_null(kPreprocessor + "window")
                          ? "none"
                          : yaml_.text(kPreprocessor + "window").value_or("hann");
    if (source_.has(kWindow) && source_.extent(kWindow, 1, 0) != f_.window) {
      source_.refuse(fmt::format("the window has {} samples, the YAML says {}",
                                 source_.extent(kWindow, 1, 0), f_.window),
                     "the checkpoint and its YAML do not belong together");
    }
  }

  void read_filterbank() {
    if (!source_.has(kBank)) {
      // Without the filterbank, its formula is used. It holds for these settings only.
      yaml_.require(kPreprocessor + "lowfreq", {"0", "0.0"});
      yaml_.require(kPreprocessor + "highfreq", {"8000", "8000.0"});
      yaml_.require(kPreprocessor + "mel_norm", {"slaney"});
      return;
    }
    const int64_t axes = source_.tensor(kBank).dim();
    f_.mel_bins = source_.decide(kPreprocessor + "features", source_.extent(kBank, axes, axes - 2));
    const int64_t bins = f_.n_fft / 2 + 1;
    if (f_.mel_bins > kMostBins || source_.extent(kBank, axes, axes - 1) != bins ||
        source_.tensor(kBank).numel() != f_.mel_bins * bins) {
      source_.refuse(
          fmt::format("the filterbank is not [{}, {}], as n_fft wants it", f_.mel_bins, bins),
          "the checkpoint and its YAML do not belong together");
    }
  }

  void read_logarithm() {
    f_.log = yaml_.boolean(kPreprocessor + "log").value_or(true);
    yaml_.require(kPreprocessor + "log_zero_guard_type", {"add", "clamp"});
    f_.log_clamp = yaml_.text(kPreprocessor + "log_zero_guard_type").value_or("add") == "clamp";
    const std::string guard = yaml_.text(kPreprocessor + "log_zero_guard_value").value_or("");
    if (guard == "tiny") {
      f_.log_guard = std::numeric_limits<float>::min();
    } else if (guard == "eps") {
      f_.log_guard = std::numeric_limits<float>::epsilon();
    } else {
      f_.log_guard = finite("log_zero_guard_value", f_.log_guard);
    }
  }

  /// Every word except two means no normalisation, as in NeMo ("NA" in cache-aware models).
  void read_normalization() {
    using Normalization = FeatureConfig::Normalization;
    const std::string path = kPreprocessor + "normalize";
    if (yaml_.has(path + ".fixed_mean") && yaml_.has(path + ".fixed_std")) {
      f_.normalization = Normalization::fixed;
      f_.fixed_mean = *yaml_.numbers(path + ".fixed_mean");
      f_.fixed_deviation = *yaml_.numbers(path + ".fixed_std");
      const auto bins = static_cast<size_t>(f_.mel_bins);
      if (f_.fixed_mean.size() != bins || f_.fixed_deviation.size() != bins)
        source_.refuse(path + " has not a number for each mel bin", "the checkpoint is damaged");
      return;
    }
    const std::string word =
        yaml_.states_null(path) ? "NA" : yaml_.text(path).value_or("per_feature");
    f_.normalization = word == "per_feature"    ? Normalization::per_feature
                       : word == "all_features" ? Normalization::all_features
                                                : Normalization::none;
  }

  const ConfigSource& source_;
  const YamlView& yaml_;
  FeatureConfig f_;
};

/// Reads the preprocessor's settings from the YAML, and from the filterbank and window in the file.
/// Throws UserError for a setting that is not supported or makes no sense, and names it.
FeatureConfig read_features(const ConfigSource& source) { return FeatureReader(source).read(); }

const std::string kEncoder = "encoder.";
const std::string kLayer = "encoder.layers.0.";
constexpr int64_t kMostFactor = 256;
constexpr size_t kMostContexts = 1000;
constexpr int64_t kMostTokens = 100'000;  // global tokens, and frames between them

class EncoderReader {
 public:
  EncoderReader(const ConfigSource& source, int64_t mel_bins)
      : source_(source), yaml_(source.yaml), mel_bins_(mel_bins) {}

  EncoderConfig read() {
    read_sizes();
    read_front_end();
    read_convolution();
    read_attention();
    read_contexts();
    if (source_.has("encoder.out_proj.weight")) {
      e_.output_width =
          source_.decide(kEncoder + "feat_out", source_.extent("encoder.out_proj.weight", 2, 0));
    }
    read_reduction();
    return e_;
  }

 private:
  bool flag(const std::string& key, bool otherwise) const {
    return yaml_.boolean(kEncoder + key).value_or(otherwise);
  }

  void read_sizes() {
    e_.layers =
        source_.decide(kEncoder + "n_layers", source_.count("encoder.layers.", ".norm_out.weight"));
    const std::string linear = kLayer + "feed_forward1.linear1.weight";
    e_.width = source_.decide(kEncoder + "d_model", source_.extent(linear, 2, 1));
    e_.feed_forward_expansion =
        source_.decide(kEncoder + "ff_expansion_factor", source_.extent(linear, 2, 0) / e_.width);
    e_.use_bias = source_.has(kLayer + "feed_forward1.linear1.bias");
    if (const auto stated = yaml_.boolean(kEncoder + "use_bias");
        stated && *stated != e_.use_bias) {
      source_.notices.push_back(
          fmt::format("encoder.use_bias: the YAML says {}, the tensors {}", *stated, e_.use_bias));
    }
    e_.x_scaling = flag("xscaling", true);
  }

  void read_front_end() {
    // NeMo 2.5 and later fails on its own vggnet, striding_conv1d and dw_striding_conv1d, because
    // its masks support two-dimensional convolutions only.
    yaml_.require(kEncoder + "subsampling",
                  {"dw_striding", "striding", "stacking", "stacking_norm"});
    if (source_.has("encoder.pre_encode.weight") ||
        source_.has("encoder.pre_encode.proj_out.weight")) {
      return read_stacking();
    }
    const std::string conv = "encoder.pre_encode.conv.";
    e_.depthwise_subsampling = source_.has(conv + "3.weight");
    e_.causal_downsampling = flag("causal_downsampling", false);
    e_.subsampling_channels = source_.extent(conv + "0.weight", 4, 0);
    e_.subsampling_factor = 2;
    const int64_t step = e_.depthwise_subsampling ? 3 : 2;
    for (int64_t i = 2; source_.has(fmt::format("{}{}.weight", conv, i)); i += step) {
      e_.subsampling_factor *= 2;
      if (e_.subsampling_factor > kMostFactor)
        source_.refuse("the encoder sub-samples too much",
                       fmt::format("at most {} times is possible", kMostFactor));
    }
    source_.decide(kEncoder + "subsampling_factor", e_.subsampling_factor);
  }

  void read_stacking() {
    e_.front_end = EncoderConfig::FrontEnd::stacking;
    e_.stacking_norm = source_.has("encoder.pre_encode.pre_norm.weight");
    e_.subsampling_factor = 1;
    if (!source_.has("encoder.pre_encode.proj_out.weight")) return;
    const int64_t stacked = source_.extent("encoder.pre_encode.proj_out.weight", 2, 1);
    if (stacked % mel_bins_ != 0 || stacked / mel_bins_ > kMostFactor) {
      source_.refuse(fmt::format("stacks of {} numbers, {} mel bins", stacked, mel_bins_),
                     "the checkpoint and its YAML do not belong together");
    }
    e_.subsampling_factor = source_.decide(kEncoder + "subsampling_factor", stacked / mel_bins_);
  }

  void read_convolution() {
    using Norm = EncoderConfig::ConvolutionNorm;
    e_.conv_kernel = source_.decide(kEncoder + "conv_kernel_size",
                                    source_.extent(kLayer + "conv.depthwise_conv.weight", 3, 2));
    const std::string norm = yaml_.text(kEncoder + "conv_norm_type").value_or("batch_norm");
    const std::string group = "group_norm";
    if (norm == "batch_norm") {
      e_.conv_norm = Norm::batch;
    } else if (norm == "fused_batch_norm") {
      e_.conv_norm = Norm::fused_batch;
    } else if (norm == "layer_norm") {
      e_.conv_norm = Norm::layer;
    } else if (norm == "instance_norm") {
      e_.conv_norm = Norm::instance;
    } else {
      e_.conv_norm = Norm::group;
      const auto groups =
          norm.starts_with(group) ? parse_number<int64_t>(norm.substr(group.size())) : std::nullopt;
      e_.norm_groups = groups.value_or(0);
      if (e_.norm_groups < 1 || e_.width % e_.norm_groups != 0) {
        source_.refuse("unsupported setting encoder.conv_norm_type: " + norm,
                       "rtfx supports: batch_norm, fused_batch_norm, layer_norm, instance_norm, "
                       "group_norm<N> with N groups of equal width");
      }
    }
    read_convolution_context();
  }

  void read_convolution_context() {
    const std::string path = kEncoder + "conv_context_size";
    if (e_.conv_kernel % 2 == 0)
      source_.refuse(fmt::format("conv_kernel_size is {}", e_.conv_kernel), "it must be odd");
    e_.conv_right_context = (e_.conv_kernel - 1) / 2;
    if (!yaml_.has(path)) return;
    if (!yaml_.is_list(path)) {
      yaml_.require(path, {"causal"});
      e_.conv_right_context = 0;
      return;
    }
    const auto sides = *yaml_.integers(path);
    if (sides.size() != 2 || sides[0] < 0 || sides[1] < 0 || sides[0] >= e_.conv_kernel ||
        sides[0] + sides[1] + 1 != e_.conv_kernel) {
      source_.refuse(fmt::format("{} does not fit a kernel of {}", path, e_.conv_kernel),
                     "give causal, or [left, right] that together are one less than the kernel");
    }
    e_.conv_right_context = sides[1];
  }

  void read_attention() {
    using Positions = EncoderConfig::Positions;
    const std::string path = kEncoder + "self_attention_model";
    yaml_.require(path, {"rel_pos", "rel_pos_local_attn", "abs_pos"});
    const std::string model = yaml_.text(path).value_or("rel_pos");
    e_.positions = model == "abs_pos"              ? Positions::absolute
                   : model == "rel_pos_local_attn" ? Positions::local
                                                   : Positions::relative;
    if (e_.positions == Positions::absolute) {
      e_.heads = source_.integer(kEncoder + "n_heads", 4, 1, e_.width);
    } else {
      e_.heads = source_.decide(kEncoder + "n_heads",
                                source_.extent(kLayer + "self_attn.pos_bias_u", 2, 0));
    }
    if (e_.width % e_.heads != 0) {
      source_.refuse(fmt::format("{} heads do not divide a width of {}", e_.heads, e_.width),
                     "the checkpoint is damaged");
    }
    if (e_.positions != Positions::local) return;
    e_.global_tokens = source_.integer(kEncoder + "global_tokens", 0, 0, kMostTokens);
    e_.global_tokens_spacing =
        source_.integer(kEncoder + "global_tokens_spacing", 1, 1, kMostTokens);
    e_.global_attn_separate = flag("global_attn_separate", false);
  }

  void read_contexts() {
    using Style = EncoderConfig::ContextStyle;
    const std::string style = kEncoder + "att_context_style", sizes = kEncoder + "att_context_size";
    yaml_.require(style, {"regular", "chunked_limited", "chunked_limited_with_rc"});
    const std::string name = yaml_.text(style).value_or("regular");
    const bool local = e_.positions == EncoderConfig::Positions::local;
    ModelConfig chosen;
    if (const auto lists = yaml_.integer_lists(sizes); lists && !lists->empty())
      e_.contexts = *lists;
    if (name == "chunked_limited" && !local) e_.context_style = Style::chunked;
    if (name == "chunked_limited_with_rc" && !local) {
      e_.context_style = Style::chunked_with_right;
      e_.contexts = trained_contexts();
    }
    chosen.encoder = e_;
    // The first context is selected last, because it is the default.
    for (auto context = e_.contexts.rbegin(); context != e_.contexts.rend(); ++context)
      select_context(chosen, *context, fmt::format("{}: {}", yaml_.where(), sizes));
    e_ = chosen.encoder;
  }

  /// Returns the contexts of the model. The first one is everything, with which NeMo starts
  /// whatever att_context_size says. Those of the training follow: one element of each of the three
  /// lists.
  std::vector<std::vector<int64_t>> trained_contexts() const {
    std::vector<std::vector<int64_t>> all = {{-1, -1, -1}};
    const auto lists = yaml_.integer_lists(kEncoder + "att_chunk_context_size");
    if (!lists || lists->size() != 3) return all;
    for (const int64_t left : (*lists)[0]) {
      for (const int64_t chunk : (*lists)[1]) {
        for (const int64_t right : (*lists)[2]) {
          if (left >= 0 && chunk >= 1 && right >= 0 && all.size() < kMostContexts)
            all.push_back({left, chunk, right});
        }
      }
    }
    return all;
  }

  void read_reduction() {
    using Reduction = EncoderConfig::Reduction;
    using Norm = EncoderConfig::ConvolutionNorm;
    const std::string path = kEncoder + "reduction";
    yaml_.require(path, {"pooling", "striding"});
    e_.reduction_factor =
        yaml_.has(path) ? source_.integer(kEncoder + "reduction_factor", 1, 1, kMostFactor) : 1;
    if (e_.reduction_factor == 1) return;
    if ((e_.reduction_factor & (e_.reduction_factor - 1)) != 0)
      source_.refuse(fmt::format("{}_factor is {}", path, e_.reduction_factor),
                     "a power of 2 is possible");
    if (e_.conv_norm == Norm::group || e_.conv_norm == Norm::instance)
      source_.refuse(path + " with a norm over time in the convolutions",
                     "rtfx supports one or the other");
    e_.reduction = yaml_.text(path) == "pooling" ? Reduction::pooling : Reduction::striding;
    e_.reduction_position = source_.integer(kEncoder + "reduction_position", -1, -1, e_.layers - 1);
    if (e_.reduction == Reduction::striding && e_.reduction_position < 0 && e_.output_width > 0)
      source_.refuse(path + ": striding behind encoder.feat_out", "NeMo cannot run that either");
  }

  const ConfigSource& source_;
  const YamlView& yaml_;
  int64_t mel_bins_;
  EncoderConfig e_;
};

/// Reads the encoder's settings: tensors decide, then the YAML, then the defaults of NeMo's class.
/// Throws UserError for a setting that is not supported or makes no sense, and names it. The
/// attention context is the first one that the file offers.
EncoderConfig read_encoder(const ConfigSource& source, int64_t mel_bins) {
  return EncoderReader(source, mel_bins).read();
}

/// Reads one checkpoint. Its input is the YAML and the tensors, and it notes where they disagree.
class Reader {
 public:
  explicit Reader(const ConfigSource& source) : source_(source), yaml_(source.yaml) {}

  ModelConfig read() {
    refuse_foreign_models(source_);
    config_.target = yaml_.text("target").value_or("");
    config_.has_ctc = source_.has("ctc.weight");
    config_.has_transducer = source_.has("joint.joint_net.weight");
    if (yaml_.has("aux_ctc") && config_.has_transducer && !config_.has_ctc) {
      source_.notices.push_back("aux_ctc: the YAML describes a CTC head, the file holds none");
    }
    config_.features = read_features(source_);
    config_.encoder = read_encoder(source_, config_.features.mel_bins);
    if (source_.has("prompt_kernel.0.weight")) read_prompts();
    if (config_.has_transducer) read_transducer();
    if (config_.has_ctc) read_vocabulary(source_.extent("ctc.weight", 3, 0) - 1, "the CTC head");
    tell_other_searches("decoding.");
    if (config_.has_transducer && config_.has_ctc) tell_other_searches("aux_ctc.decoding.");
    return config_;
  }

 private:
  /// Adds a notice for each setting of NeMo's search that changes its result, and that rtfx
  /// ignores. Files as NeMo saves them hold these keys with empty values. `part` is "decoding." or,
  /// for the CTC head of a hybrid model, "aux_ctc.decoding.".
  void tell_other_searches(const std::string& part) {
    const std::string strategy = yaml_.text(part + "strategy").value_or("greedy_batch");
    const bool is_greedy = strategy == "greedy" || strategy == "greedy_batch";
    if (!is_greedy) {
      source_.notices.push_back(fmt::format(
          "{}strategy: {} is ignored, choose a decoder of rtfx instead", part, strategy));
    }
    const std::string section = part + (is_greedy ? "greedy." : "beam.");
    const auto tell = [&](const char* weight, const std::string& key, const char* option) {
      // Without a weight, NeMo's greedy searches take 0, and some of its beam searches 1.
      if (yaml_.number(section + weight).value_or(is_greedy ? 0 : 1) == 0) return;
      source_.notices.push_back(fmt::format(
          "{} is ignored, use the option '{}' of a decoder instead", section + key, option));
    };
    if (yaml_.has_content(section + "ngram_lm_model"))
      tell("ngram_lm_alpha", "ngram_lm_model", "lm");
    for (const char* name :
         {"model_path", "key_phrases_file", "key_phrases_list", "key_phrase_items_list"}) {
      if (!yaml_.has_content(fmt::format("{}boosting_tree.{}", section, name))) continue;
      tell("boosting_tree_alpha", "boosting_tree", "boost");
      break;
    }
  }

  void read_prompts() {
    PromptConfig& p = config_.prompt;
    const std::string first = "prompt_kernel.0.weight", dictionary = "prompt_dictionary";
    p.width = source_.extent(first, 2, 0);
    p.count = source_.decide("model_defaults.num_prompts",
                             source_.extent(first, 2, 1) - config_.encoder.frame_width());
    if (p.count < 1)
      source_.refuse("prompt_kernel has no inputs for prompts", "the checkpoint is damaged");
    const std::string path = "model_defaults." + dictionary;
    for (const std::string& language : yaml_.keys(path)) {
      const std::string key = fmt::format("{}.{}", path, language);
      p.languages[language] = source_.integer(key, -1, 0, p.count - 1);
    }
    if (p.languages.empty())
      source_.refuse("prompt_kernel, and no languages in " + path,
                     "restore them in model_config.yaml");
    // NeMo's transcribe() uses this prompt where it is given no language.
    if (const auto found = p.languages.find("auto"); found != p.languages.end())
      p.standard = found->second;
  }

  void read_transducer() {
    yaml_.require("decoder.normalization_mode", {"layer"});
    yaml_.require("decoder.blank_as_pad", {"true", "True"});
    PredictionConfig& p = config_.prediction;
    p.width =
        source_.decide("decoder.prednet.pred_hidden", source_.extent("joint.pred.weight", 2, 1));
    const std::string prefix = "decoder.prediction.";
    if (source_.has(prefix + "embeds.0.weight")) {
      p.kind = PredictionConfig::Kind::stateless;
      p.context_size =
          source_.decide("decoder.context_size", source_.count(prefix + "embeds.", ".weight"));
      p.layer_norm = yaml_.text("decoder.normalization_mode").value_or("") == "layer";
    } else {
      yaml_.require("decoder.normalization_mode", {});
      p.layers = source_.decide("decoder.prednet.pred_rnn_layers",
                                source_.count(prefix + "dec_rnn.lstm.weight_ih_l", ""));
      if (source_.has(prefix + "dec_rnn.lstm.weight_hr_l0")) {
        throw UserError(yaml_.where(), "unsupported setting decoder.prednet: a projected LSTM",
                        "only plain LSTM prediction networks are supported");
      }
    }
    config_.joint_width =
        source_.decide("joint.jointnet.joint_hidden", source_.extent("joint.enc.weight", 2, 0));
    yaml_.require("joint.jointnet.activation", {"relu", "sigmoid", "tanh"});
    config_.joint_activation = yaml_.text("joint.jointnet.activation").value_or("relu");
    read_extra_outputs();
    const std::string table = p.layers > 0 ? prefix + "embed.weight" : prefix + "embeds.0.weight";
    read_vocabulary(source_.extent(table, 2, 0) - 1, "the prediction network");
    read_max_symbols();
  }

  /// Reads max_symbols_per_step where max_symbols is 0 or missing, as NeMo does. Where both are
  /// missing, the limit stays that of ModelConfig.
  void read_max_symbols() {
    for (const char* name : {"max_symbols", "max_symbols_per_step"}) {
      const std::string key = fmt::format("decoding.greedy.{}", name);
      const int64_t symbols = yaml_.integer(key).value_or(0);
      if (symbols < 0)
        source_.refuse(fmt::format("{} is {}", key, symbols),
                       "set it to 1 or more in model_config.yaml");
      if (symbols == 0) continue;
      config_.max_symbols = std::min(symbols, kMostSymbols);
      return;
    }
  }

  /// Reads the joint's outputs beside tokens and blank: durations of TDT, or big blanks.
  void read_extra_outputs() {
    const int64_t rows = source_.extent("joint.joint_net.weight", 2, 0);
    const std::string table = config_.prediction.layers > 0 ? "embed.weight" : "embeds.0.weight";
    const int64_t columns = rows - source_.extent("decoder.prediction." + table, 2, 0);
    if (columns == 0) return;
    // In NeMo the loss decides, if it names multi-blank.
    const std::string in_decoding = "decoding.big_blank_durations";
    if (yaml_.text("loss.loss_name").value_or("") == "multiblank_rnnt")
      return read_big_blanks("loss.multiblank_rnnt_kwargs.big_blank_durations", columns);
    if (yaml_.text("decoding.model_type").value_or("") == "multiblank" ||
        !yaml_.integers(in_decoding).value_or(std::vector<int64_t>{}).empty())
      return read_big_blanks(in_decoding, columns);
    std::string key = "decoding.durations";
    if (yaml_.integers(key).value_or(std::vector<int64_t>{}).empty())
      key = "model_defaults.tdt_durations";
    const auto durations = yaml_.integers(key);
    if (!durations || static_cast<int64_t>(durations->size()) != columns) {
      throw UserError(yaml_.where(),
                      fmt::format("the joint has {} duration outputs, decoding.durations lists {}",
                                  columns, durations ? durations->size() : 0),
                      "the checkpoint and its YAML do not belong together");
    }
    require_durations(key, *durations, 0);
    config_.durations = *durations;
  }

  /// Reads the big blanks. NeMo's labels are the tokens, then the big blanks in reverse order of
  /// the list, then the standard blank.
  void read_big_blanks(const std::string& key, int64_t columns) {
    const auto durations = yaml_.integers(key).value_or(std::vector<int64_t>{});
    if (static_cast<int64_t>(durations.size()) != columns) {
      throw UserError(
          yaml_.where(),
          fmt::format("the joint has {} big blanks, {} lists {}", columns, key, durations.size()),
          "the checkpoint and its YAML do not belong together");
    }
    require_durations(key, durations, 1);
    config_.blank_durations.assign(durations.rbegin(), durations.rend());
    config_.blank_durations.push_back(1);
  }

  void require_durations(const std::string& key, const std::vector<int64_t>& durations,
                         int64_t least) const {
    for (const int64_t duration : durations) {
      if (duration < least || duration > kMostTokens)
        source_.refuse(fmt::format("{} has {}", key, duration),
                       fmt::format("{} to {} frames are possible", least, kMostTokens));
    }
  }

  void read_vocabulary(int64_t size, const char* part) {
    if (size < 1)
      source_.refuse(fmt::format("{} has no token but the blank", part),
                     "the checkpoint is damaged");
    if (config_.vocabulary != 0 && config_.vocabulary != size) {
      throw UserError(
          yaml_.where(),
          fmt::format("{} has {} tokens, another head {}", part, size, config_.vocabulary),
          "the checkpoint is damaged");
    }
    config_.vocabulary = size;
  }

  const ConfigSource& source_;
  const YamlView& yaml_;
  ModelConfig config_;
};

}  // namespace

ModelConfig read_config(const YamlView& yaml, const StateDict& weights,
                        std::vector<std::string>& notices) {
  const ConfigSource source{yaml, weights, notices};
  return Reader(source).read();
}

}  // namespace rtfx
