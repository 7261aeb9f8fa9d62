// Voice activity detectors for tests: TorchScript modules with the interface of Silero's.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "speech/streams/voice_activity.h"

namespace rtfx::test {

constexpr const char* kReset = "def reset_states(self):\n  self.windows = 0\n";
/// This detector reports speech where the mean square of the samples is above 1e-4.
constexpr const char* kEnergy =
    "def forward(self, x, sr: int):\n"
    "  self.windows = self.windows + 1\n"
    "  return (x.pow(2).mean(1, True) > 1e-4).float()\n";

/// Saves a TorchScript module with these methods and an attribute `windows`. Returns its file.
inline std::filesystem::path save_detector(const std::string& name, const std::string& forward,
                                           const std::string& reset = kReset) {
  torch::jit::Module module("Detector");
  module.register_attribute("windows", c10::IntType::get(), int64_t{0});
  if (!reset.empty()) module.define(reset);
  if (!forward.empty()) module.define(forward);
  const auto folder = std::filesystem::temp_directory_path() / ("rtfx." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / (name + ".jit");
  module.save(file.string());
  return file;
}

inline std::shared_ptr<const VoiceDetector> energy_detector() {
  return std::make_shared<const VoiceDetector>(save_detector("energy", kEnergy), 16000, "--vad");
}

}  // namespace rtfx::test
