// Voice activity detection finds where in a stream nobody speaks. The detector is a TorchScript
// module with the interface of Silero's (https://github.com/snakers4/silero-vad). `forward(x, sr)`
// takes the next window of samples [1, n] and the sample rate. It keeps a state, and returns the
// probability that somebody speaks in the window. `reset_states()` begins a new stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// The samples, after speech, in which nobody speaks.
struct Silence {
  int64_t begin = 0;
  /// The end of the window in which somebody speaks again; the largest number until then.
  int64_t until = std::numeric_limits<int64_t>::max();
  bool operator==(const Silence&) const = default;
};

/// Finds silences from the probabilities of windows, with the rule and the thresholds of Silero's
/// VADIterator. Speech begins with a window of at least 0.5. A silence begins with the first window
/// below 0.35 after speech. It ends with the next window of at least 0.5.
class Silences {
 public:
  explicit Silences(int64_t window) : window_(window) {}

  /// Adds the probability of the next window.
  void add(float probability);
  /// Returns the silences in order. Only the last one may go on.
  const std::vector<Silence>& all() const { return all_; }
  /// Drops the silences that end before `sample`.
  void forget(int64_t sample);

 private:
  int64_t window_;     // samples
  int64_t heard_ = 0;  // samples
  bool speech_ = false;
  std::vector<Silence> all_;
};

class VoiceActivity;

/// A detector that many streams can use. It computes on the CPU.
class VoiceDetector {
 public:
  /// Reads `file` and tries it on a window. `where` names the file's option in errors. Throws
  /// UserError if it is no such module. Also throws if a module for speech at 8 or 16 kHz does not
  /// support `sample_rate`.
  VoiceDetector(const std::filesystem::path& file, int64_t sample_rate, std::string_view where);
  ~VoiceDetector();
  VoiceDetector(const VoiceDetector&) = delete;
  VoiceDetector& operator=(const VoiceDetector&) = delete;

  int64_t sample_rate() const { return sample_rate_; }

 private:
  friend class VoiceActivity;
  struct Module;  // a TorchScript module
  int64_t window() const;
  /// Returns a copy with a state of its own.
  std::unique_ptr<Module> copy() const;
  float probability(Module& module, std::span<const float> window) const;

  std::unique_ptr<Module> module_;
  int64_t sample_rate_;
  std::string where_;  // the option and the file
};

/// The detector's state and results for one stream.
class VoiceActivity {
 public:
  explicit VoiceActivity(std::shared_ptr<const VoiceDetector> detector);
  ~VoiceActivity();
  VoiceActivity(VoiceActivity&&) noexcept;
  VoiceActivity& operator=(VoiceActivity&&) noexcept;

  /// Adds samples, in pieces of any size. Runs the detector on each window that is complete. Throws
  /// UserError where the detector does not return a probability.
  void push(std::span<const float> samples);

  const std::vector<Silence>& silences() const { return silences_.all(); }
  void forget(int64_t sample) { silences_.forget(sample); }

 private:
  std::shared_ptr<const VoiceDetector> detector_;
  std::unique_ptr<VoiceDetector::Module> module_;
  std::vector<float> rest_;  // samples of a window that is not complete
  Silences silences_;
};

}  // namespace rtfx
