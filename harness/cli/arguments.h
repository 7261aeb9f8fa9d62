// Arguments that several commands share, and checks of numbers.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

// Checks of numbers on the command line, with messages that state the allowed numbers. CLI11's own
// messages print the largest double with all of its digits.

/// Allows the numbers for which `allows` returns true. `rule` states them in words, and `name` is
/// shown by `--help`.
template <class Allows>
CLI::Validator number_check(const std::string& rule, const Allows& allows,
                            const std::string& name) {
  const auto check = [rule, allows](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && allows(value)) return std::string();
    return fmt::format("must be {}, not '{}'", rule, text);
  };
  return CLI::Validator(check, name);
}

/// Allows whole numbers and fractions of at least `low`, which is 0 or 1.
inline CLI::Validator at_least(int low) {
  return number_check(
      fmt::format("{} or more", low), [low](double value) { return value >= low; },
      low == 0 ? "NONNEGATIVE" : "POSITIVE");
}

/// Allows numbers above 0.
inline CLI::Validator above_zero() {
  return number_check(
      "above 0", [](double value) { return value > 0; }, "POSITIVE");
}

/// Allows numbers from `low` to `high`, both included.
inline CLI::Validator between(double low, double high) {
  return number_check(
      fmt::format("from {} to {}", low, high),
      [low, high](double value) { return value >= low && value <= high; },
      fmt::format("{}..{}", low, high));
}

/// Refuses an empty text, such as that of an unset variable of a shell.
inline CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); },
      "");
}

// The help texts of options that several commands have.

inline constexpr const char* kModelHelp =
    "Model: a .nemo file, a folder of a Hugging Face model, or the name of a downloaded one.";
inline constexpr const char* kDeviceHelp =
    "Device: cpu, cuda or cuda:N. auto: the first GPU if there is one, else the CPU.";
inline constexpr const char* kThreadsHelp =
    "Number of CPU threads. 0: OMP_NUM_THREADS if it is set, else all CPUs that the process may "
    "use.";
inline constexpr const char* kDecoderHelp =
    "Decoder (see `rtfx list`). Default: the fastest exact greedy search for model and device.";
inline constexpr const char* kDecoderOptionsHelp =
    "Options of the decoder as a JSON object (see `rtfx list DECODER`).";
inline constexpr const char* kPluginsHelp =
    "Shared libraries with further decoders, separated by commas.";
inline constexpr const char* kDtypeHelp =
    "Number type of encoder and decoder: fp32, bf16 or fp16, and fp64 on a CPU. bf16+fp32: encoder "
    "in bf16, decoder in fp32. fp8: encoder in fp8 on a Hopper GPU, decoder in bf16.";

inline constexpr const char* kRunHelp = "Folder of a run, or its journal.";
inline constexpr const char* kRun = "RUN";  // the type of an argument with that help

/// Adds --drift to a command that learns the drift from five `runs` ("runs", "baselines") or more.
void add_drift(CLI::App& command, std::optional<double>& drift, const char* runs);

// The arguments of every command that takes a configuration.

struct ConfigArguments {
  std::string file, device, output;
  std::vector<std::string> overrides;
  std::optional<int64_t> threads;
  bool sync_debug = false;

  void add_to(CLI::App& app);
  /// Adds all arguments except the configuration itself.
  void add_overrides_to(CLI::App& app);
  /// Returns all overrides as "key=value", including those of --device, --threads and --output.
  std::vector<std::string> all_overrides() const;
  /// Returns the configuration and all overrides as arguments for a shell: " mine.json --output
  /// runs/mine".
  std::string command_line() const;
  /// Reads the configuration and makes the files that its key "prepare" lists. Throws UserError.
  Document read() const;
  /// Calls read() and parse_config().
  Config load() const;
};

struct JournalMode {
  bool resume = false, force = false;

  void add_to(CLI::App& app);
  Journal::Mode mode() const;
};

}  // namespace rtfx
