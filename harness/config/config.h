// A run's configuration: plain JSON, every error with its place, every default filled in.
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

namespace rtfx {

// The key "tune" of a configuration: which options of a decoder `rtfx tune` chooses on which set.

/// Where the value of an option is looked for: between two numbers, both ends included, or among
/// choices.
struct TuneRange {
  double low = 0, high = 1;
  bool is_integer = false;                   // of the decoder's option
  std::vector<nlohmann::json> choices = {};  // texts or truth values; empty: it is a number
};

struct TuneSpec {
  std::string decoder;                       // id
  DatasetSource dataset;                     // the development set
  std::map<std::string, TuneRange> options;  // by dotted name, "lm.alpha"
  std::vector<std::string> models;           // ids; empty: those of the decoder
  std::vector<std::string> shared_with;      // ids of decoders that get the chosen values too
  int64_t grid = 5;                          // values of each option in the first, coarse search
  double tolerance = 0.02;     // share of a range, to which the weights are found in the end
  nlohmann::json chosen = {};  // what `rtfx tune` found; null: it has not run
  std::string where = {};      // JSON pointer, for errors found later
};

// The key "stream" of a configuration: what `rtfx stream` simulates.

/// A rule by which the most streams that a server sustains are looked for. A trial is kept where
/// requests begin in time and utterances end in time. The defaults are those of "c120".
struct StreamRule {
  double late = 0.001;            // share of the requests that may begin a period or more too late
  double final_ms = 1000;         // latency of the request that ends an utterance,
  std::string of_finals = "p95";  // this percentile of it
  double seconds = 60;            // of a trial
  double confirm_seconds = 120;   // of the trial that confirms the number
  double growth = 1.25;           // from a number that is kept to the next one
  double wer = 0.02;  // by which the word error rate of the streams may be higher, relative

  static const OptionTable<StreamRule>& table();
};

/// A rule that ends utterances of live streams, whose latency is measured.
struct EndpointSettings {
  std::string rule;                 // "pause", "token" or "vad"
  double seconds = 0;               // without a word, or without speech; 0: 1 and 0.5
  std::vector<std::string> tokens;  // find_end_tokens()
  std::string vad;                  // the file of a VoiceDetector
  std::string where = {};           // JSON pointer, for errors found later

  static const OptionTable<EndpointSettings>& table();
};

struct StreamSettings {
  std::vector<int64_t> streams = {1, 16, 64, 256};  // at a time; a case each
  double period_ms = 400;             // between the requests of a stream, so much new audio each
  double chunk_ms = 400;              // audio in a request; beyond the period: right context
  std::string arrivals = "constant";  // make_load()
  double stagger_seconds = 10;        // in which staggered streams begin
  std::string start = "beginning";    // of the first utterance of each stream, or "random"
  int64_t max_batch = 256;            // requests
  double max_wait_ms = 2;             // how long the oldest request waits for others
  double seconds = 30;                // how long requests arrive
  double discard = 0.1;  // share of these seconds, from the start, that is not measured
  bool partial = true;   // with the text so far after every request
  bool quality = false;  // compares the words with those of whole utterances
  std::vector<EndpointSettings> endpoints;  // one after the other, with `quality`
  double silence = 3;                       // seconds behind each recording, for `endpoints`
  std::string scope = "search";             // or "speech": from samples to tokens
  std::vector<double> buffer = {2, 10, 2};  // seconds, as BufferSeconds: models without caches
  std::vector<int64_t> fewer_rows = {};     // StreamOptions::fewer_rows, below max_batch
  double slo_ms = 0;  // 99th percentile of latency that a number of streams must keep; 0: none
  std::optional<StreamRule> rule;
};

const OptionTable<StreamSettings>& stream_keys();

/// Reads the settings by their table, and checks that they leave something to measure. Throws
/// UserError.
StreamSettings read_stream_settings(const JsonView& view);

/// Behind which frame each request of an utterance ends. A request brings the frames of one period,
/// since those of the right context are not known yet; the one that holds the utterance's end
/// brings all that are left. At least one; a request may bring none.
std::vector<int64_t> request_ends(const StreamSettings& options, int64_t frames,
                                  double frame_seconds, double seconds);

/// The most frames that a request brings, but for an utterance's last.
int64_t largest_request(const StreamSettings& options, double frame_seconds);

struct ModelSource {
  std::string id;
  std::filesystem::path path;
  /// The attention context of a cache-aware encoder in NeMo's form: [left, right] frames, or [left,
  /// chunk, right]. Empty selects the model's default.
  std::vector<int64_t> att_context_size = {};
  /// The language of utterances whose manifest states none, for models with prompts. Empty selects
  /// the model's default.
  std::string language = {};
};

struct DecoderSpec {
  std::string id;
  std::string name;  // in the registry
  /// The given options (OptionTable); a list of values has been expanded.
  nlohmann::json options = nlohmann::json::object();
  std::vector<std::string> models;         // ids or kinds it is restricted to; empty: all
  std::vector<std::string> datasets = {};  // ids it is restricted to; empty: all
  std::string baseline;          // id of the decoder it is compared with; empty: of its kind
  std::string where;             // JSON pointer, for errors found later
  std::string control_of = {};   // id of the decoder that this one repeats (A/A control)
  Description description = {};  // of the decoder with these options

  /// Makes the decoder, which checks `options`, and keeps its description. Throws UserError.
  void describe();
};

/// Among sizes of batches: "max", the largest that fits.
constexpr int64_t kLargestBatch = 0;

struct BatchRule {
  bool by_seconds = false;  // else by count
  double size = 1;          // utterances, or seconds of audio padding included
  bool largest = false;     // size is found when it is run (harness/run/estimate.h)

  /// "b16", "s120" or "bmax"
  std::string label() const;
};

/// The most CPU threads that can be asked for.
constexpr int64_t kMaxThreads = 1024;

/// Settings of the mode "throughput".
struct Throughput {
  int64_t in_flight = 6;         // batches, from their padding to their text
  std::string audio = "memory";  // or "files": read and resampled on the way
};

/// How, and how often, is measured; config_keys.cpp says what each key means.
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
  double steady_seconds = 30;  // of a measured round in the mode "throughput"

  bool overlapped() const { return mode == "throughput"; }
};

struct Config {
  std::string name;
  std::string question;
  std::string device = "auto";
  int64_t threads = 0;  // 0: all that the process may use
  std::vector<ModelSource> models;
  std::vector<DatasetSource> datasets;
  std::vector<DecoderSpec> decoders;
  std::string baseline;  // id of the transducer decoder that all others are compared with
  std::vector<int64_t> batch_sizes;
  std::vector<double> batch_seconds;
  std::vector<BatchRule> batches;  // all of both
  std::vector<std::string> dtypes = {"fp32"};
  std::string sort = "duration_desc";
  Protocol protocol;
  std::map<std::string, std::string> required = {
      {"fp32", "exact"}, {"bf16", "rounding"}, {"fp16", "rounding"}, {"fp64", "exact"}};
  bool replay = true;         // results are proved by replay (harness/run/replay_check.h)
  double wer_above_fp32 = 1;  // at most so many more word errors than in fp32, as a share
  bool isolated = true;       // those of the mode "throughput" are compared with an isolated pass
  std::string scorer = "basic_english";
  std::string encoder = "automatic";            // EncoderForm
  bool encoder_graphs = true;                   // on a GPU: recorded_encoder.h
  std::optional<ConfidenceOptions> confidence;  // of every token of a result
  bool sync_debug = false;
  std::optional<StreamSettings> stream;  // of `rtfx stream`
  std::vector<TuneSpec> tune;            // of `rtfx tune`
  bool isolate = false;  // each group of cases in a child process (harness/run/isolated_run.h)
  std::filesystem::path output;
  std::vector<std::string> plugins;
  Origins origins;  // its file, and the overrides of the command line

  /// All of the above as JSON.
  nlohmann::json resolved() const;
  /// Returns the SHA-256 of what determines the results: resolved() without name, question, output,
  /// protocol, tune and isolate. Paths are relative to the file's folder, so that it does not
  /// depend on where the file lies.
  std::string hash() const;
};

/// The keys of a configuration, each by itself (config_keys.cpp): names, ranges, defaults and help
/// stand there alone. parse_config() checks conditions on several keys.
const OptionTable<Config>& config_keys();

/// Throws UserError where the configuration asks for the largest batch. Commands that do not look
/// for it call this.
void require_sizes(const Config& config, const std::string& command);

/// Reads a configuration, loads its plug-ins, and makes each decoder once to check its options.
/// Throws UserError for all errors together; each names the override that it comes from.
Config parse_config(const Document& document);

}  // namespace rtfx
