// The configuration of a checkpoint: the settings of its YAML, checked against its tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

struct FeatureConfig {
  /// Over a row's valid frames: each mel bin by itself, all bins together, or with numbers that the
  /// model brings along.
  enum class Normalization { none, per_feature, all_features, fixed };

  int64_t sample_rate = 16000;
  int64_t mel_bins = 80;
  int64_t n_fft = 512;
  int64_t window = 400;               // samples
  int64_t hop = 160;                  // samples
  std::string window_shape = "hann";  // or hamming, blackman, bartlett; none = a rectangle
  double preemphasis = 0.97;          // 0 = none
  double magnitude_power = 2;         // of the spectrum that the filterbank sees
  bool log = true;
  double log_guard = 0x1p-24;  // added to the mel values before the logarithm,
  bool log_clamp = false;      // or their least value
  Normalization normalization = Normalization::per_feature;
  std::vector<double> fixed_mean, fixed_deviation;  // [mel_bins], with Normalization::fixed

  /// Feature frames of so many samples. A single frame has no deviation, so that per_feature would
  /// make zeros of it (NeMo refuses it on a GPU): there it counts as no utterance.
  int64_t frames(int64_t samples) const {
    const int64_t whole = samples / hop;
    return whole == 1 && normalization == Normalization::per_feature ? 0 : whole;
  }
};

struct EncoderConfig {
  /// Strided convolutions, or `subsampling_factor` frames side by side as one (1 = a linear map of
  /// each frame).
  enum class FrontEnd { convolution, stacking };
  /// Positions in attention: relative distances; distances in the form of NeMo's local attention;
  /// or absolute sinusoids that are added to the input.
  enum class Positions { relative, local, absolute };
  enum class ContextStyle { regular, chunked, chunked_with_right };
  enum class ConvolutionNorm { batch, fused_batch, layer, group, instance };
  enum class Reduction { none, pooling, striding };

  int64_t layers = 0;
  int64_t width = 0;         // d
  int64_t output_width = 0;  // of a linear map behind the last layer; 0 = none
  int64_t heads = 0;
  int64_t feed_forward_expansion = 4;
  bool use_bias = true;   // biases of the layers' linear maps and convolutions
  bool x_scaling = true;  // multiply by sqrt(width) after sub-sampling

  FrontEnd front_end = FrontEnd::convolution;
  int64_t subsampling_factor = 8;
  int64_t subsampling_channels = 256;
  bool depthwise_subsampling = true;  // dw_striding (FastConformer) or striding (Conformer)
  bool causal_downsampling = false;   // kernels that reach back only, in time and in mel bins
  bool stacking_norm = false;         // stacking: layer norm of the features

  /// Frames again, `reduction_factor` times fewer, behind layer `reduction_position` (-1 = the
  /// end).
  Reduction reduction = Reduction::none;
  int64_t reduction_factor = 1;
  int64_t reduction_position = -1;

  int64_t conv_kernel = 0;
  int64_t conv_right_context = -1;  // frames after the kernel's own; -1 = half of the kernel
  ConvolutionNorm conv_norm = ConvolutionNorm::batch;
  int64_t norm_groups = 1;  // ConvolutionNorm::group

  Positions positions = Positions::relative;
  /// Frames of attention: the query's own chunk, so many to its left and to its right; -1 = all.
  int64_t left_context = -1;
  int64_t right_context = -1;
  int64_t chunk = 1;
  /// The source of these three (select_context): the style in NeMo's words, and the contexts that
  /// the file offers, the default first.
  ContextStyle context_style = ContextStyle::regular;
  std::vector<int64_t> context = {-1, -1};
  std::vector<std::vector<int64_t>> contexts = {{-1, -1}};

  /// Local attention: so many frames, so far apart, that all frames see and that see all frames.
  int64_t global_tokens = 0;
  int64_t global_tokens_spacing = 1;
  bool global_attn_separate = false;  // with linear maps of their own

  /// Width of the frames that the heads get.
  int64_t frame_width() const { return output_width > 0 ? output_width : width; }
  /// The extent of an axis (time or mel bins) after one strided convolution.
  int64_t halved(int64_t extent) const {
    return causal_downsampling ? extent / 2 + 1 : (extent + 1) / 2;
  }
  /// Mel frames of one encoder frame.
  int64_t factor() const { return subsampling_factor * reduction_factor; }
  /// Encoder frames of so many mel frames. Stacking drops an incomplete last stack. No frames stay
  /// no frames, also where NeMo's causal convolutions would make one of their padding.
  int64_t subsampled(int64_t frames) const {
    if (frames <= 0) return 0;
    return reduced(front_end == FrontEnd::stacking ? frames / subsampling_factor
                                                   : convolved(frames));
  }
  /// The number of frames after the reduction that follows sub-sampling.
  int64_t reduced(int64_t frames) const {
    for (int64_t f = 2; f <= reduction_factor; f *= 2) {
      frames = reduction == Reduction::pooling ? frames / reduction_factor : (frames + 1) / 2;
    }
    return frames;
  }
  /// Reduction::striding as a front end of its own, of frames `width` wide.
  EncoderConfig reduction_convolutions() const {
    EncoderConfig strided;
    strided.width = strided.subsampling_channels = width;
    strided.subsampling_factor = reduction_factor;
    strided.depthwise_subsampling = strided.x_scaling = false;
    return strided;
  }
  /// The extent of an axis after all strided convolutions.
  int64_t convolved(int64_t extent) const {
    for (int64_t f = 2; f <= subsampling_factor; f *= 2) extent = halved(extent);
    return extent;
  }
};

struct PredictionConfig {
  enum class Kind { lstm, stateless };
  Kind kind = Kind::lstm;
  int64_t width = 0;
  int64_t layers = 0;        // LSTM
  int64_t context_size = 0;  // stateless
  bool layer_norm = false;   // stateless
};

/// Prompts that an encoder's frames are conditioned on (models/encoder/prompt_kernel.h). Each
/// utterance has one, mostly its language.
struct PromptConfig {
  int64_t count = 0;      // P; 0: the model takes no prompt
  int64_t width = 0;      // of the layer between frames and conditioned frames
  int64_t standard = -1;  // of utterances that state none; -1: each must state one
  std::map<std::string, int64_t> languages;  // names of prompts

  /// The prompt of this name. Throws UserError at `where` for another name, with all known ones,
  /// and for a model that takes no prompt.
  int64_t of(const std::string& language, const std::string& where) const;
  /// The prompt that an utterance states, or else the standard one. Throws UserError where there is
  /// neither.
  int64_t or_standard(std::optional<int64_t> stated, const std::string& where = "language") const;
};

/// The largest `max_symbols` that a decoder's option may have. A checkpoint may state more, which
/// counts as this many: no speech has as many tokens at a frame.
constexpr int64_t kMostSymbols = 1000;

struct ModelConfig {
  std::string target;  // NeMo class
  FeatureConfig features;
  EncoderConfig encoder;
  PromptConfig prompt;
  bool has_ctc = false;
  bool has_transducer = false;
  PredictionConfig prediction;
  int64_t joint_width = 0;  // H
  std::string joint_activation = "relu";
  std::vector<int64_t> durations;  // TDT: value of each duration index; empty for RNN-T
  /// Multi-blank RNN-T (Xu et al., arXiv 2211.03541): frames that each blank skips, in the order of
  /// its labels V, V+1, ...; the last is the standard blank, with 1. Empty for other models.
  std::vector<int64_t> blank_durations;
  int64_t vocabulary = 0;    // V, tokens without blank; the blank id is V
  int64_t max_symbols = 10;  // decoding.greedy.max_symbols of the checkpoint

  bool is_tdt() const { return has_transducer && !durations.empty(); }
  bool is_multiblank() const { return has_transducer && !blank_durations.empty(); }
  /// The labels that a transducer's joint network chooses among: tokens and blanks.
  int64_t labels() const {
    return vocabulary + std::max<int64_t>(1, static_cast<int64_t>(blank_durations.size()));
  }
  /// "ctc", "rnnt", "multiblank" or "tdt": the kind of the main head (a hybrid is named by its
  /// transducer).
  std::string kind() const {
    if (!has_transducer) return "ctc";
    return is_tdt() ? "tdt" : is_multiblank() ? "multiblank" : "rnnt";
  }
  /// kind(), and "ctc" beside it for a hybrid.
  std::vector<std::string> kinds() const {
    std::vector<std::string> all = {kind()};
    if (has_transducer && has_ctc) all.emplace_back("ctc");
    return all;
  }
  /// Encoder frames of an utterance of so many samples: what Features and Encoder give as lengths.
  int64_t encoded_frames(int64_t samples) const {
    return encoder.subsampled(features.frames(samples));
  }
  /// Seconds of audio per encoder frame.
  double frame_seconds() const {
    return static_cast<double>(features.hop * encoder.factor()) / features.sample_rate;
  }
};

/// Makes `context` that of the encoder, as NeMo's set_default_att_context_size() does:
///   regular style and local attention: [left, right] frames;
///   chunked_limited: [left, right], chunks of right + 1 frames, `left` rounded down to whole
///   chunks; chunked_limited_with_rc: [left, chunk, right] frames, or [-1, -1, -1] for everything.
/// -1 = all, where NeMo means that by it. Any context of the right form will do, not only those of
/// EncoderConfig::contexts: which ones a model was trained for, only its maker knows. Throws
/// UserError otherwise; `where` names the setting in it.
void select_context(ModelConfig& config, const std::vector<int64_t>& context,
                    const std::string& where);

/// Makes the prompt of `language` that of utterances that state none. Throws what
/// PromptConfig::of() does.
void select_language(ModelConfig& config, const std::string& language, const std::string& where);

}  // namespace rtfx
