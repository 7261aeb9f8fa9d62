#include "speech/streams/voice_activity.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr float kSpeech = 0.5F, kNoSpeech = 0.35F;
constexpr const char* kRemedy =
    "give silero_vad.jit of the Python package silero-vad (pip install silero-vad; "
    "silero_vad/data/silero_vad.jit)";

/// Returns the first line of LibTorch's message, without the stack that follows.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

void Silences::add(float probability) {
  const int64_t begin = std::exchange(heard_, heard_ + window_);
  if (probability >= kSpeech) {
    if (!speech_ && !all_.empty()) all_.back().until = std::min(all_.back().until, heard_);
    speech_ = true;
  } else if (probability < kNoSpeech && speech_) {
    speech_ = false;
    all_.push_back({.begin = begin});
  }
}

void Silences::forget(int64_t sample) {
  std::erase_if(all_, [&](const Silence& silence) { return silence.until < sample; });
}

struct VoiceDetector::Module {
  torch::jit::Module module;
};

VoiceDetector::VoiceDetector(const std::filesystem::path& file, int64_t sample_rate,
                             std::string_view where)
    : sample_rate_(sample_rate), where_(fmt::format("{}: {}", where, file.string())) {
  if (sample_rate != 8000 && sample_rate != 16000) {
    throw UserError(where,
                    fmt::format("a detector hears 8 or 16 kHz, the model {} Hz", sample_rate),
                    "end utterances by another rule");
  }
  if (!std::filesystem::is_regular_file(file)) throw UserError(where_, "no such file", kRemedy);
  const c10::InferenceMode inference;
  try {
    module_ = std::make_unique<Module>(Module{torch::jit::load(file.string(), at::kCPU)});
  } catch (const std::exception& error) {
    throw UserError(where_, "is no TorchScript module: " + first_line(error), kRemedy);
  }
  module_->module.eval();
  if (!module_->module.find_method("reset_states"))
    throw UserError(where_, "has no method reset_states()", kRemedy);
  const std::unique_ptr<Module> tried = copy();
  probability(*tried, std::vector<float>(static_cast<size_t>(window())));
}

VoiceDetector::~VoiceDetector() = default;

int64_t VoiceDetector::window() const { return sample_rate_ * 32 / 1000; }

std::unique_ptr<VoiceDetector::Module> VoiceDetector::copy() const {
  const c10::InferenceMode inference;
  auto copied = std::make_unique<Module>(Module{module_->module.deepcopy()});
  try {
    copied->module.run_method("reset_states");
  } catch (const std::exception& error) {
    throw UserError(where_, "reset_states() fails: " + first_line(error), kRemedy);
  }
  return copied;
}

float VoiceDetector::probability(Module& module, std::span<const float> window) const {
  const c10::InferenceMode inference;
  const at::Tensor samples =
      at::empty({1, static_cast<int64_t>(window.size())}, at::TensorOptions(at::kFloat));
  std::ranges::copy(window, samples.data_ptr<float>());
  c10::IValue result;
  try {
    result = module.module.forward({samples, sample_rate_});
  } catch (const std::exception& error) {
    throw UserError(where_,
                    fmt::format("cannot be called with a window [1, {}] and {} Hz: {}",
                                window.size(), sample_rate_, first_line(error)),
                    kRemedy);
  }
  if (!result.isTensor() || result.toTensor().numel() != 1)
    throw UserError(where_, "returns something else than one probability", kRemedy);
  const auto value = result.toTensor().item<float>();
  if (!(value >= 0 && value <= 1)) {
    const std::string text = std::isnan(value) ? "NaN" : fmt::format("{:g}", value);
    throw UserError(where_, "returns " + text + " as a probability", kRemedy);
  }
  return value;
}

VoiceActivity::VoiceActivity(std::shared_ptr<const VoiceDetector> detector)
    : detector_(std::move(detector)), module_(detector_->copy()), silences_(detector_->window()) {}

VoiceActivity::~VoiceActivity() = default;
VoiceActivity::VoiceActivity(VoiceActivity&&) noexcept = default;
VoiceActivity& VoiceActivity::operator=(VoiceActivity&&) noexcept = default;

void VoiceActivity::push(std::span<const float> samples) {
  rest_.insert(rest_.end(), samples.begin(), samples.end());
  const auto window = static_cast<size_t>(detector_->window());
  size_t done = 0;
  for (; rest_.size() - done >= window; done += window)
    silences_.add(detector_->probability(*module_, std::span(rest_).subspan(done, window)));
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace rtfx
