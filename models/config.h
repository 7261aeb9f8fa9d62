// What a checkpoint is made of: the settings of its YAML, checked against its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtfx {

struct FeatureConfig {
  int64_t sample_rate = 16000;
  int64_t mel_bins = 80;
  int64_t n_fft = 512;
  int64_t window = 400;  // samples
  int64_t hop = 160;     // samples
};

struct EncoderConfig {
  int64_t layers = 0;
  int64_t width = 0;  // d
  int64_t heads = 0;
  int64_t conv_kernel = 0;
  int64_t subsampling_factor = 8;
  /// Encoder frames of so many mel frames.
  int64_t subsampled(int64_t frames) const {
    for (int64_t f = 2; f <= subsampling_factor; f *= 2) frames = (frames + 1) / 2;
    return frames;
  }
  int64_t subsampling_channels = 256;
  bool depthwise_subsampling = true;  // dw_striding (FastConformer) or striding (Conformer)
  int64_t feed_forward_expansion = 4;
  bool use_bias = true;        // biases of the layers' linear maps and convolutions
  bool x_scaling = true;       // multiply by sqrt(width) after sub-sampling
  int64_t left_context = -1;   // frames of attention to the left, -1 = all
  int64_t right_context = -1;  // and to the right
};

struct PredictionConfig {
  enum class Kind { lstm, stateless };
  Kind kind = Kind::lstm;
  int64_t width = 0;
  int64_t layers = 0;        // LSTM
  int64_t context_size = 0;  // stateless
  bool layer_norm = false;   // stateless
};

struct ModelConfig {
  std::string target;  // NeMo class
  FeatureConfig features;
  EncoderConfig encoder;
  bool has_ctc = false;
  bool has_transducer = false;
  PredictionConfig prediction;
  int64_t joint_width = 0;  // H
  std::string joint_activation = "relu";
  std::vector<int64_t> durations;  // TDT: value of each duration index; empty for RNN-T
  int64_t vocabulary = 0;          // V, tokens without blank; the blank id is V
  int64_t max_symbols = 10;        // decoding.greedy.max_symbols of the checkpoint

  bool is_tdt() const { return has_transducer && !durations.empty(); }
  /// "ctc", "rnnt" or "tdt": the kind of the main head (a hybrid is named by its transducer).
  std::string kind() const { return is_tdt() ? "tdt" : has_transducer ? "rnnt" : "ctc"; }
  /// kind(), and "ctc" beside it for a hybrid.
  std::vector<std::string> kinds() const {
    std::vector<std::string> all = {kind()};
    if (has_transducer && has_ctc) all.emplace_back("ctc");
    return all;
  }
  /// Encoder frames of an utterance of so many samples: what Features and Encoder give as lengths.
  int64_t encoded_frames(int64_t samples) const {
    int64_t frames = samples / features.hop;
    if (frames <= 1) return 0;
    return encoder.subsampled(frames);
  }
  /// Seconds of audio per encoder frame.
  double frame_seconds() const {
    return static_cast<double>(features.hop * encoder.subsampling_factor) / features.sample_rate;
  }
};

}  // namespace rtfx
