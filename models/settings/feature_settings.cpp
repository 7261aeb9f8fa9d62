#include "models/settings/feature_settings.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace rtfx {
namespace {

const std::string kPreprocessor = "preprocessor.";
const std::string kBank = "preprocessor.featurizer.fb";
const std::string kWindow = "preprocessor.featurizer.window";

// A damaged YAML shall not ask for memory without bounds.
constexpr int64_t kMostSamples = 65536;  // of a window, a stride and a transform
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

  /// In samples where the YAML gives them, in seconds otherwise; a fraction of a sample is dropped.
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
    f_.window = samples("n_window_size", "window_size", 0.025);
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
    // NeMo makes no window of other words, and fails when it wants to use it.
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
      // The formula stands in for it with these settings only.
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

  /// Any word but two means none, as NeMo has it ("NA" in cache-aware models).
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

}  // namespace

FeatureConfig read_features(const ConfigSource& source) { return FeatureReader(source).read(); }

}  // namespace rtfx
