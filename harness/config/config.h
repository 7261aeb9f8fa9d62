// The configuration of a run, read from JSON. Every error names its place, and every default is
// filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/confidence/confidence.h"
#include "base/options.h"
#include "datasets/dataset.h"
#include "harness/config/document.h"
#include "harness/config/stream_settings.h"

namespace rtfx {

// The key "tune" of a configuration: the options of a decoder that `rtfx tune` chooses, and the set
// that it chooses them on.

/// The values that an option may take in the search: all between two numbers, both included, or a
/// list of choices.
struct TuneRange {
  double low = 0, high = 1;
  bool is_integer = false;                   // the decoder's option takes integers
  std::vector<nlohmann::json> choices = {};  // texts or truth values; empty: the option is a number
};

struct TuneSpec {
  std::string decoder;                       // id of the decoder
  DatasetSource dataset;                     // development set
  std::map<std::string, TuneRange> options;  // indexed by dotted name, such as "lm.alpha"
  std::vector<std::string> models;           // ids of models; empty: all models of the decoder
  std::vector<std::string> shared_with;      // ids of decoders that get the chosen values too
  int64_t grid = 5;                          // values of each option in the first, coarse grid
  double tolerance = 0.02;     // spacing at which the search ends, as a share of a range
  nlohmann::json chosen = {};  // values that `rtfx tune` found; null: it has not run
  std::string where = {};      // JSON pointer, for errors that are found later
};

struct ModelSource {
  std::string id;
  std::filesystem::path path;
  /// Attention context of a cache-aware encoder in NeMo's form: [left, right] or [left, chunk,
  /// right] in frames. If empty, the model's default is taken.
  std::vector<int64_t> att_context_size = {};
  /// Language of utterances whose manifest states none, for models with prompts. If empty, the
  /// model's default is taken.
  std::string language = {};
};

/// Returns the id of a model that is given without one: "parakeet-ctc-1.1b" for
/// parakeet-ctc-1.1b.nemo and for the folder parakeet-ctc-1.1b/. It also does so for
/// models--nvidia--parakeet-ctc-1.1b/snapshots/REVISION/, as `hf download` names it.
std::string model_name(const std::filesystem::path& model);

struct DecoderSpec {
  std::string id;
  std::string name;  // name in the registry
  /// Options as given (OptionTable), after lists of values have been expanded.
  nlohmann::json options = nlohmann::json::object();
  std::vector<std::string> models;         // ids or kinds of models that it is for; empty: all
  std::vector<std::string> datasets = {};  // ids of datasets that it is for; empty: all
  /// Id of the decoder that it is compared with; empty: the baseline of its kind.
  std::string baseline;
  std::string where;             // JSON pointer, for errors that are found later
  std::string control_of = {};   // id of the decoder that this one repeats (A/A control)
  Description description = {};  // description of the decoder with these options

  /// Makes the decoder, which checks `options`, and stores its description. Throws UserError.
  void describe();
};

/// The batch size "max", which stands for the largest that fits into memory.
constexpr int64_t kLargestBatch = 0;

struct BatchRule {
  bool by_seconds = false;  // `size` is in seconds, else in utterances
  double size = 1;          // utterances, or seconds of audio including padding
  bool largest = false;     // the run looks for the largest size (harness/run/largest_batch.h)

  /// Returns "b16", "s120" or "bmax".
  std::string label() const;
};

/// Largest number of CPU threads that can be asked for.
constexpr int64_t kMaxThreads = 1024;

/// Settings of the mode "throughput".
struct Throughput {
  int64_t in_flight = 6;  // batches between padding and text at one time
  std::string audio =
      "memory";  // "memory", or "files": audio is read and resampled during the pass
};

/// How each case is measured, and how often. config_keys.cpp gives the meaning of each key.
struct Protocol {
  std::string mode = "isolated";
  Throughput throughput;
  int64_t warmup_rounds = 1;
  int64_t measured_rounds = 3;
  int64_t seed = 1;
  double cv_max = 0.05;
  bool aa_control = false;
  double precision = 0;
  int64_t extra_rounds = 10;
  double budget_seconds = 0;
  double case_limit_seconds = 0;
  double energy_seconds = 0;
  double steady_seconds = 30;  // length of a measured round in the mode "throughput"

  bool overlapped() const { return mode == "throughput"; }
};

struct Config {
  std::string name;
  std::string question;
  std::string device = "auto";
  int64_t threads = 0;  // 0: OMP_NUM_THREADS, or all CPUs that the process may use
  std::vector<ModelSource> models;
  std::vector<DatasetSource> datasets;
  std::vector<DecoderSpec> decoders;
  std::string baseline;  // id of the transducer decoder that all others are compared with
  std::vector<int64_t> batch_sizes;
  std::vector<double> batch_seconds;
  std::vector<BatchRule> batches;  // batch sizes by count and by seconds
  std::vector<std::string> dtypes = {"fp32"};
  std::string sort = "duration_desc";
  Protocol protocol;
  std::map<std::string, std::string> required = {
      {"fp32", "exact"}, {"bf16", "rounding"}, {"fp16", "rounding"}, {"fp64", "exact"}};
  bool replay = true;         // replay proves the results (harness/run/replay_check.h)
  double wer_above_fp32 = 1;  // largest increase of the WER over that in fp32; 0.001 is 0.1 points
  bool isolated = true;       // results of the mode "throughput" are compared with an isolated pass
  std::string scorer = "basic_english";
  std::string encoder = "automatic";            // EncoderForm
  bool encoder_graphs = true;                   // only on a GPU; recorded_encoder.h
  std::optional<ConfidenceOptions> confidence;  // computed for every token of a result
  bool sync_debug = false;
  std::optional<StreamSettings> stream;  // for `rtfx stream`
  std::vector<TuneSpec> tune;            // for `rtfx tune`
  bool isolate = false;  // runs each group of cases in a child process (harness/run/isolated_run.h)
  std::filesystem::path output;
  std::vector<std::string> plugins;
  Origins origins;  // the configuration's file, and the overrides of the command line
  /// The keys "prepare", "paper" and "cells", which other code reads (harness/cli/prepare.h,
  /// plots/paper_table.py). They do not change what is measured, so journals leave them out.
  nlohmann::json foreign = nlohmann::json::object();

  /// Returns all of the above as JSON, except `foreign`.
  nlohmann::json resolved() const;
  /// Returns the SHA-256 of everything that determines the results. It is resolved() without name,
  /// question, output, protocol, tune and isolate. Paths are relative to the file's folder, so the
  /// hash does not depend on where the file lies.
  std::string hash() const;
};

/// Returns the keys of a configuration. Their names, ranges, defaults and help are declared in
/// config_keys.cpp, and those of "stream" in stream_settings.cpp. parse_config() checks conditions
/// on several keys.
const OptionTable<Config>& config_keys();

/// Returns the keys of an entry of "datasets".
const OptionTable<DatasetSource>& dataset_keys();

/// Throws UserError if the configuration asks for the largest batch. Called by commands that do not
/// look for it.
void require_sizes(const Config& config, const std::string& command);

/// Reads a configuration, loads its plug-ins, and makes each decoder once to check its options.
/// Throws UserError for all errors together; each names the override that it comes from.
Config parse_config(const Document& document);

}  // namespace rtfx
