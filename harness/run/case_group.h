// Runs one group of cases: all decoders over the same encoder outputs, round after round.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/foreign_code.h"
#include "algorithms/result_check.h"
#include "harness/config/plan.h"
#include "harness/machine/conditions.h"
#include "harness/machine/sudden_end.h"
#include "harness/run/compiled_biases.h"
#include "harness/run/loaded_inputs.h"
#include "harness/run/replay_check.h"
#include "harness/scoring/boosted_words.h"
#include "harness/scoring/exactness.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/read_ahead.h"
#include "speech/runtime/device.h"

namespace rtfx {

/// The first pass of a decoder in this process. Only Decoder::prepare() has run before it, so this
/// pass also records graphs and reserves memory for its batch sizes.
struct FirstPass {
  double seconds = 0;             // time of the whole pass
  double first_text_seconds = 0;  // from the samples of the first batch to its text
  RecordedEncoder::Counts encoder;
};

/// One decoder of the group, and its state during the run.
struct Arm {
  PlannedDecoder plan;
  const DecoderSpec* spec = nullptr;
  Description description;
  std::unique_ptr<Decoder> decoder;
  std::optional<ResultRules> rules;  // what its results must satisfy
  BoostedWords boosted;              // words that the prepared decoder boosts
  CompiledBiases biases;             // biases of single utterances for the prepared decoder
  std::optional<Confidence> confidence;
  /// Device memory that prepare() kept; none if other code gave memory back meanwhile.
  std::optional<int64_t> kept_bytes;
  std::string result_key;
  std::string first_hash;  // hash of the hypotheses of the first measured round
  double seconds = 0;      // time spent so far, including work that all decoders of the group share
  bool failed = false;
  std::optional<FirstPass> first_pass;  // in throughput mode
  /// In throughput mode: passes that are not measured have recorded the encoder's graphs. They run
  /// before the first measured round, or before a trial's pass.
  bool graphs_recorded = false;
};

struct BatchTime {
  double audio_seconds = 0;  // without padding
  /// Time of all regions; in throughput mode, the time since the previous batch's text.
  double total_seconds = 0;
  double decode_seconds = 0;   // time of the region `decode`
  double latency_seconds = 0;  // from samples to text
};

/// The result of one decoder in one round. If the round has several passes, times are means over
/// them.
struct RoundResult {
  RegionTimes times;        // summed over batches
  double seconds = 0;       // from samples to text: the sum of all regions, or the overlapped pass
  double load_seconds = 0;  // time to read audio files, if the pass reads them
  std::vector<BatchTime> batches;    // in the order of the round
  std::vector<double> pass_seconds;  // seconds of each overlapped pass
  /// Seconds from samples to text, for each overlapped pass and each of its batches.
  std::vector<std::vector<double>> latencies;
  RecordedEncoder::Counts encoder;  // summed over all overlapped passes
  /// All passes over these batches, including unmeasured ones, have the same hypotheses.
  bool repeats = true;
  int64_t order = 0;                            // position within the round
  std::vector<Hypothesis> hypotheses;           // indexed by utterance of the dataset
  std::vector<std::vector<std::string>> words;  // indexed likewise; normalised by the scorer
  std::vector<TokenEvidence> evidence;          // indexed likewise; empty without confidence
  Counters counters;                            // summed over batches
  /// Most device memory that decoding one batch took; none for overlapped passes.
  std::optional<int64_t> decode_bytes;
  GradeCounts graded;  // grades against the arm that this one is compared with
  bool compared = false;
  std::optional<GradeCounts> isolated;  // grades of an overlapped pass against one region by region
  std::optional<ReplayTotals> replay;   // only for decoders whose decisions can be recomputed
};

/// The GPU's energy for passes of one decoder alone, from samples to text.
struct EnergyUse {
  MeanPower power;
  double seconds = 0, audio_seconds = 0;  // sums over all passes
  int64_t passes = 0;

  double joules_per_audio_hour() const { return 3600 * power.watts * seconds / audio_seconds; }
};

/// How a round is run. A warm-up in throughput mode uses other batches than the measured rounds. A
/// trial uses the measured batches, to see whether they fit into memory. Warm-ups and trials have a
/// single pass. In throughput mode, their results are not compared.
enum class RoundKind { measured, warm_up, trial };

class CaseGroupRunner {
 public:
  /// Called when a decoder fails, with its arm and the stage. The decoder takes no further part.
  using OnFailure =
      std::function<void(const Arm&, const std::string& stage, const FailureText& failure)>;
  /// Called after each batch.
  using OnBatch = std::function<void()>;
  /// Called before each stage, with the arm that runs it (null: all arms) and the stage's name as
  /// in OnFailure.
  using OnStage = std::function<void(const Arm*, const char* stage)>;
  /// Called on another thread when a stage exceeds the limit of its case.
  using OnOverdue = std::function<void(const std::string& why)>;

  CaseGroupRunner(LoadedInputs& inputs, const CaseGroup& group, at::Device device,
                  OnFailure on_failure, OnBatch on_batch);

  /// Builds the model and the decoders. A decoder that fails is reported and left out.
  void prepare();

  /// Makes one pass over the dataset. In throughput mode, each arm makes passes until
  /// protocol.steady_seconds have gone by; its first pass does not count towards this time. Returns
  /// a result for each arm; the results of failed arms mean nothing. Throws Interrupted between
  /// batches.
  std::vector<RoundResult> round(int64_t number, RoundKind kind = RoundKind::measured);

  /// Measures the energy of one arm. It makes whole passes over the dataset with this arm alone,
  /// compares nothing, and stops after `seconds`. Arms of a round share encoder passes, and a
  /// counter that is updated every 20 to 100 ms cannot separate them. Returns none where the
  /// counter cannot be read, the time was too short (mean_power()), or the arm fails. Throws
  /// Interrupted between batches.
  std::optional<EnergyUse> energy(Arm& arm, double seconds, const EnergyCounter& counter);

  /// Reports stages to another process, which then knows what this one was doing when it ended.
  /// Without it, an overdue stage ends the program (end_suddenly).
  void watch_stages(OnStage on_stage, OnOverdue on_overdue);

  /// Sets the advice of errors for a stage that ends the program. Without it, errors have the
  /// advice of `rtfx run`.
  void suggest(std::string remedy) { remedy_ = std::move(remedy); }

  /// Begins `stage` of `arm`, or of all arms if `arm` is null. The time of the stage counts towards
  /// the limit of these cases. This class enters its own stages itself.
  void enter(Arm* arm, const char* stage);
  /// Ends the stage. Arms that have now taken longer than protocol.case_limit_seconds fail.
  void leave();
  /// Calls `work`, which runs code of the arm's decoder, and checks that it leaves the model's
  /// weights as they are (algorithms/foreign_code.h). `batch` is checked likewise.
  void call(const Arm& arm, const std::function<void()>& work,
            const SharedTensors* batch = nullptr) const;

  std::vector<Arm>& arms() { return arms_; }
  size_t batches() const { return batches_.size(); }
  const AcousticModel& model() const { return *model_; }

 private:
  /// The result of one overlapped pass. If the arm failed, it holds the part up to the failure.
  struct OverlappedPass {
    struct Batch {
      Decoded decoded;
      RegionTimes times;
      double load_seconds = 0;
      std::chrono::steady_clock::time_point begin, end;
    };
    std::vector<Batch> batches;
    RegionTimes clock;  // wall time and CPU time
    std::chrono::steady_clock::time_point begin;
  };
  using Batches = std::vector<std::vector<size_t>>;  // indices of utterances

  /// Throws UserError if a batch cannot fit into memory.
  void require_memory() const;
  /// Has a prepared decoder search a batch of silence (OverlappedPipeline::warm_up()).
  void warm_up(Decoder& decoder);
  Clips clips_of(const std::vector<size_t>& utterances) const {
    return rtfx::clips_of(model_->config, dataset_, utterances);
  }
  /// Runs a batch: the encoder once, then each arm, region by region. Returns the encoder's frames.
  EncodedBatch run_batch(const std::vector<size_t>& utterances, const std::vector<size_t>& order,
                         std::vector<RoundResult>& results);
  /// Returns an empty result for each arm.
  std::vector<RoundResult> empty_results() const;
  /// Runs one arm alone over all batches, and keeps no result.
  void isolated_pass(Arm& arm, const char* stage);
  /// Runs each arm by itself over all batches, with several batches in flight.
  void overlapped_round(const std::vector<size_t>& order, RoundKind kind,
                        std::vector<RoundResult>& results);
  /// Runs the passes of one arm in a round.
  void overlapped_passes(Arm& arm, RoundKind kind, RoundResult& result);
  /// Adds a pass to the arm's result, which takes its hypotheses from the first pass.
  void take_pass(const Arm& arm, OverlappedPass& pass, const Batches& batches,
                 RoundResult& result) const;
  /// Replays and compares the results of overlapped passes.
  void verify_overlapped(const std::vector<size_t>& order, std::vector<RoundResult>& results);
  OverlappedPass overlapped_pass(Arm& arm, const char* stage, const Batches& batches);
  using Reader = ReadAhead<std::vector<float>>;
  /// Begins to read the audio files of a pass. Returns null if their samples are in memory or are
  /// read batch by batch.
  std::unique_ptr<Reader> reader(const Batches& batches) const;
  void fill(const std::vector<size_t>& utterances, Reader* reader, BatchInFlight& batch) const;

  /// Adds a batch to the arm's result. `of_batch` holds the values that `times` does not have.
  /// Throws if a hypothesis is marked as NaN.
  void take(const Arm& arm, const std::vector<size_t>& utterances, Decoded decoded,
            const RegionTimes& times, BatchTime of_batch, RoundResult& result) const;
  /// Replays a batch's results, and compares them with those of the baseline; overlapped passes are
  /// also compared with isolated_. Calls the batch source only when frames are needed.
  void verify(const std::vector<size_t>& utterances, const ReplayCheck::BatchSource& batch,
              std::vector<RoundResult>& results);
  void compare_results(Arm& arm, const std::vector<size_t>& utterances,
                       const std::vector<Proof>& proofs, std::vector<RoundResult>& results) const;
  /// Adds the grades of a batch's results against `baseline` to `graded`.
  void add_grades(const std::vector<size_t>& utterances, const std::vector<Proof>& proofs,
                  const RoundResult& baseline, const RoundResult& result, bool same_score_kind,
                  GradeCounts& graded) const;
  FirstPass first_pass_of(const OverlappedPass& pass) const;
  void fail(Arm& arm, const std::string& stage, const FailureText& failure);
  /// Describes the exception that is being handled, and names the utterance of a wrong result.
  FailureText failure_of(const std::vector<size_t>& utterances) const;
  /// Fails the arm whose stage is under way, or all arms.
  void fail_stage(const FailureText& failure);
  const std::string& id_of(const std::vector<size_t>& utterances, size_t row) const;
  /// Returns the index of the arm that this one is compared with; the number of arms if there is
  /// none.
  size_t baseline_of(const Arm& arm) const;
  bool is_in_stage(const Arm& arm) const {
    return !arm.failed && (!stage_arm_ || stage_arm_ == &arm);
  }

  UnderWayScope under_way_;
  LoadedInputs& inputs_;
  const CaseGroup& group_;
  const LoadedDataset& dataset_;
  at::Device device_;
  RegionClock clock_;
  double limit_;  // longest time of a case in seconds; 0: no limit
  OnFailure on_failure_;
  OnBatch on_batch_;
  OnStage on_stage_ = [](const Arm*, const char*) {};
  OnOverdue on_overdue_;
  std::string remedy_ =
      "what was recorded is kept; with `--resume --set isolate=true` such an end costs this case "
      "alone";
  const char* stage_ = nullptr;  // name of the stage under way
  Arm* stage_arm_ = nullptr;
  std::chrono::steady_clock::time_point stage_begin_;
  Batches batches_, other_batches_;  // measured batches, and batches of warm-ups in throughput mode
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;      // encoder of model_
  PinnedMemory memory_;                         // samples of the batch of an isolated pass
  std::optional<OverlappedPipeline> pipeline_;  // only in throughput mode
  std::vector<Arm> arms_;
  std::optional<SharedTensors> weights_;  // only if a decoder is foreign code
  /// Results of a pass region by region, for comparison with overlapped passes.
  std::vector<RoundResult> isolated_;
  std::optional<ReplayCheck> replay_;
  std::optional<Watchdog> watchdog_;  // only if cases have a limit
};

}  // namespace rtfx
