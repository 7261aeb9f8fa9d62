// The configuration of a checkpoint: the settings of its YAML, checked against its tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

/// With a new field, FusedFeatures::supports() (models/encoder/fused) does not compile. Decide
/// there whether the kernels honour it.
struct FeatureConfig {
  /// The statistics that normalise a row's valid frames: those of each mel bin, those of all bins
  /// together, or fixed numbers of the model.
  enum class Normalization { none, per_feature, all_features, fixed };

  int64_t sample_rate = 16000;
  int64_t mel_bins = 80;
  int64_t n_fft = 512;
  int64_t window = 400;               // samples
  int64_t hop = 160;                  // samples
  std::string window_shape = "hann";  // or hamming, blackman, bartlett; none = a rectangle
  double preemphasis = 0.97;          // 0 = none
  double magnitude_power = 2;         // power of the magnitude spectrum that the filterbank sees
  bool log = true;
  double log_guard = 0x1p-24;  // added to the mel values before the logarithm
  bool log_clamp = false;      // true = log_guard is their lower limit instead
  Normalization normalization = Normalization::per_feature;
  std::vector<double> fixed_mean, fixed_deviation;  // [mel_bins], with Normalization::fixed

  /// Returns the number of feature frames of `samples` samples. A single frame has no deviation,
  /// and per_feature would turn it into zeros (NeMo refuses it on a GPU). With per_feature, such an
  /// utterance therefore counts as empty.
  int64_t frames(int64_t samples) const {
    const int64_t whole = samples / hop;
    return whole == 1 && normalization == Normalization::per_feature ? 0 : whole;
  }
};

struct EncoderConfig {
  /// Strided convolutions, or stacking: `subsampling_factor` frames side by side become one.
  /// Stacking with factor 1 is a linear map of each frame.
  enum class FrontEnd { convolution, stacking };
  /// Positions in attention: relative distances, distances in the form of NeMo's local attention,
  /// or absolute sinusoids that are added to the input.
  enum class Positions { relative, local, absolute };
  enum class ContextStyle { regular, chunked, chunked_with_right };
  enum class ConvolutionNorm { batch, fused_batch, layer, group, instance };
  enum class Reduction { none, pooling, striding };

  int64_t layers = 0;
  int64_t width = 0;         // d
  int64_t output_width = 0;  // width of a linear map after the last layer; 0 = no such map
  int64_t heads = 0;
  int64_t feed_forward_expansion = 4;
  bool use_bias = true;   // biases of the layers' linear maps and convolutions
  bool x_scaling = true;  // multiply by sqrt(width) after sub-sampling

  FrontEnd front_end = FrontEnd::convolution;
  int64_t subsampling_factor = 8;
  int64_t subsampling_channels = 256;
  bool depthwise_subsampling = true;  // dw_striding (FastConformer) or striding (Conformer)
  bool causal_downsampling = false;   // kernels reach back only, in time and in mel bins
  bool stacking_norm = false;         // stacking only: layer norm of the features

  /// A second sub-sampling by `reduction_factor` after layer `reduction_position` (-1 = the last).
  Reduction reduction = Reduction::none;
  int64_t reduction_factor = 1;
  int64_t reduction_position = -1;

  int64_t conv_kernel = 0;
  int64_t conv_right_context = -1;  // frames after the kernel's own; -1 = half of the kernel
  ConvolutionNorm conv_norm = ConvolutionNorm::batch;
  int64_t norm_groups = 1;  // ConvolutionNorm::group

  Positions positions = Positions::relative;
  /// The frames that a query attends to: its own chunk, `left_context` frames to the left and
  /// `right_context` frames to the right of it. -1 = all.
  int64_t left_context = -1;
  int64_t right_context = -1;
  int64_t chunk = 1;
  /// select_context() sets left_context, right_context and chunk from these. The style is in NeMo's
  /// words. `contexts` are those that the file offers, the default first.
  ContextStyle context_style = ContextStyle::regular;
  std::vector<int64_t> context = {-1, -1};
  std::vector<std::vector<int64_t>> contexts = {{-1, -1}};

  /// Local attention: this many global frames, at this distance from each other, see all frames,
  /// and all frames see them.
  int64_t global_tokens = 0;
  int64_t global_tokens_spacing = 1;
  bool global_attn_separate = false;  // global frames have linear maps of their own

  /// Returns the width of the frames that the heads get.
  int64_t frame_width() const { return output_width > 0 ? output_width : width; }
  /// Returns the extent of an axis (time or mel bins) after one strided convolution.
  int64_t halved(int64_t extent) const {
    return causal_downsampling ? extent / 2 + 1 : (extent + 1) / 2;
  }
  /// Returns the number of mel frames per encoder frame.
  int64_t factor() const { return subsampling_factor * reduction_factor; }
  /// Returns the number of encoder frames of `frames` mel frames. Stacking drops an incomplete last
  /// stack. Zero frames stay zero, also where NeMo's causal convolutions would make one frame of
  /// their padding.
  int64_t subsampled(int64_t frames) const {
    if (frames <= 0) return 0;
    return reduced(front_end == FrontEnd::stacking ? frames / subsampling_factor
                                                   : convolved(frames));
  }
  /// Returns the number of frames after the reduction that follows sub-sampling. With pooling, NeMo
  /// divides by the whole factor, once for each factor 2 in it.
  int64_t reduced(int64_t frames) const {
    for (int64_t f = 2; f <= reduction_factor; f *= 2) {
      frames = reduction == Reduction::pooling ? frames / reduction_factor : (frames + 1) / 2;
    }
    return frames;
  }
  /// Describes Reduction::striding as a front end, whose input is `width` wide.
  EncoderConfig reduction_convolutions() const {
    EncoderConfig strided;
    strided.width = strided.subsampling_channels = width;
    strided.subsampling_factor = reduction_factor;
    strided.depthwise_subsampling = strided.x_scaling = false;
    return strided;
  }
  /// Returns the extent of an axis after all strided convolutions.
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

/// The prompts that condition an encoder's frames (models/encoder/prompt_kernel.h). Each utterance
/// has one prompt, usually its language.
struct PromptConfig {
  int64_t count = 0;      // P; 0 = the model takes no prompt
  int64_t width = 0;      // width of the layer between frames and conditioned frames
  int64_t standard = -1;  // prompt of utterances that state none; -1 = each must state one
  std::map<std::string, int64_t> languages;  // names of prompts

  /// Returns the prompt of this name. Throws UserError at `where` for another name, with all known
  /// ones, and for a model that takes no prompt.
  int64_t of(const std::string& language, const std::string& where) const;
  /// Returns the prompt that an utterance states, or else the standard one. Throws UserError where
  /// there is neither.
  int64_t or_standard(std::optional<int64_t> stated, const std::string& where = "language") const;
};

/// The largest `max_symbols` that an option of a decoder may have. A larger value in a checkpoint
/// counts as this one, because no speech has as many tokens at one frame.
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
  /// Multi-blank RNN-T (Xu et al., arXiv 2211.03541): the number of frames that each blank skips.
  /// The order is that of the blanks' labels V, V+1, ... The last one is the standard blank, which
  /// skips 1 frame. Empty for other models.
  std::vector<int64_t> blank_durations;
  int64_t vocabulary = 0;    // V, tokens without blank; the blank id is V
  int64_t max_symbols = 10;  // decoding.greedy.max_symbols of the checkpoint

  bool is_tdt() const { return has_transducer && !durations.empty(); }
  bool is_multiblank() const { return has_transducer && !blank_durations.empty(); }
  /// Returns the number of labels that a transducer's joint network chooses among: tokens and
  /// blanks.
  int64_t labels() const {
    return vocabulary + std::max<int64_t>(1, static_cast<int64_t>(blank_durations.size()));
  }
  /// Returns the kind of the main head: "ctc", "rnnt", "multiblank" or "tdt". A hybrid is named by
  /// its transducer.
  std::string kind() const {
    if (!has_transducer) return "ctc";
    return is_tdt() ? "tdt" : is_multiblank() ? "multiblank" : "rnnt";
  }
  /// Returns kind(), followed by "ctc" for a hybrid.
  std::vector<std::string> kinds() const {
    std::vector<std::string> all = {kind()};
    if (has_transducer && has_ctc) all.emplace_back("ctc");
    return all;
  }
  /// Returns the number of encoder frames of an utterance of `samples` samples. Features and
  /// Encoder give this number as the length.
  int64_t encoded_frames(int64_t samples) const {
    return encoder.subsampled(features.frames(samples));
  }
  /// Returns the seconds of audio per encoder frame.
  double frame_seconds() const {
    return static_cast<double>(features.hop * encoder.factor()) / features.sample_rate;
  }
};

/// Makes `context` the context of the encoder, as NeMo's set_default_att_context_size() does. The
/// form of `context` depends on the style:
///   - regular and local attention: [left, right] frames.
///   - chunked_limited: [left, right]. Chunks have right + 1 frames, and `left` is rounded down to
///     whole chunks.
///   - chunked_limited_with_rc: [left, chunk, right] frames, or [-1, -1, -1] for everything.
/// -1 means all frames, where NeMo gives it that meaning. Any context of the right form is
/// accepted, not only those of EncoderConfig::contexts, because only its maker knows what a model
/// was trained for. Throws UserError otherwise; `where` names the setting in the message.
void select_context(ModelConfig& config, const std::vector<int64_t>& context,
                    const std::string& where);

/// Sets the prompt of `language` for utterances that state none. Throws what PromptConfig::of()
/// does.
void select_language(ModelConfig& config, const std::string& language, const std::string& where);

}  // namespace rtfx
