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
#include "harness/run/replay_check.h"
#include "harness/run/workspace.h"
#include "harness/scoring/boosted_words.h"
#include "harness/scoring/exactness.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/read_ahead.h"

namespace rtfx {

/// The first pass of a decoder in this process, before any of its batches' sizes had come. Of what
/// later passes find ready, only Decoder::prepare() has been done.
struct FirstPass {
  double seconds = 0;             // of the whole pass
  double first_text_seconds = 0;  // from the samples of the first batch to its text
  RecordedEncoder::Counts encoder;
};

/// One decoder of the group.
struct Arm {
  PlannedDecoder plan;
  const DecoderSpec* spec = nullptr;
  Description description;
  std::unique_ptr<Decoder> decoder;
  std::optional<ResultRules> rules;  // of its results
  BoostedWords boosted;              // of the prepared decoder
  CompiledBiases biases;             // likewise
  std::optional<Confidence> confidence;
  std::optional<int64_t> kept_bytes;  // of the device, that prepare() took and kept; none where
                                      // something else gave memory back meanwhile
  std::string result_key;
  std::string first_hash;  // of its first measured round
  double seconds = 0;      // that it has taken, what all decoders of the group wait for included
  bool failed = false;
  std::optional<FirstPass> first_pass;  // of overlapped passes
  bool settled = false;                 // passes before the measured ones have recorded graphs
};

struct BatchTime {
  double audio_seconds = 0;    // without padding
  double total_seconds = 0;    // of all regions; overlapped, since the text of the batch before
  double decode_seconds = 0;   // of that region
  double latency_seconds = 0;  // from samples to text
};

/// The result of one decoder in one round. Where the round has several passes, times are their
/// means.
struct RoundResult {
  RegionTimes times;        // summed over batches
  double seconds = 0;       // from samples to text: of all regions, or of the overlapped pass
  double load_seconds = 0;  // of reading audio files, where that is part of the pass
  std::vector<BatchTime> batches;               // in the order of the round
  std::vector<double> pass_seconds;             // of each overlapped pass
  std::vector<std::vector<double>> latencies;   // likewise, seconds of each batch to its text
  RecordedEncoder::Counts encoder;              // of all overlapped passes
  bool repeats = true;                          // all passes of these batches, also those that are
                                                // not measured, have the same hypotheses
  int64_t order = 0;                            // position within the round
  std::vector<Hypothesis> hypotheses;           // by utterance of the dataset
  std::vector<std::vector<std::string>> words;  // the same as the scorer writes them
  std::vector<TokenEvidence> evidence;          // the same; empty without confidence
  Counters counters;                            // summed over batches
  std::optional<int64_t> decode_bytes;  // of the device, the most that a batch's decoding took;
                                        // not known of an overlapped pass
  Audit audit;                          // against the arm it is compared to
  bool audited = false;
  std::optional<Audit> isolated;      // of an overlapped pass, against one region by region
  std::optional<ReplayAudit> replay;  // of decoders whose decisions can be recomputed
};

/// The GPU's energy for passes of one decoder alone, from samples to text.
struct EnergyUse {
  MeanPower power;
  double seconds = 0, audio_seconds = 0;  // of all passes
  int64_t passes = 0;

  double joules_per_audio_hour() const { return 3600 * power.watts * seconds / audio_seconds; }
};

/// How a round is run. A warm-up of overlapped passes has other batches than the measured rounds. A
/// trial has theirs, to see whether they fit. Both have a single pass, and overlapped ones are not
/// compared with anything.
enum class RoundKind { measured, warm_up, trial };

class CaseGroupRunner {
 public:
  /// Called for a decoder that fails: its arm, the stage, the message. The decoder takes no further
  /// part.
  using OnFailure =
      std::function<void(const Arm&, const std::string& stage, const std::string& message)>;
  /// Called after each batch.
  using OnBatch = std::function<void()>;
  /// Called before each stage: whose it is (null: all decoders'), and its name as in OnFailure.
  using OnStage = std::function<void(const Arm*, const char* stage)>;
  /// Called on another thread when a stage does not come back within the limit of its case.
  using OnOverdue = std::function<void(const std::string& why)>;

  CaseGroupRunner(Workspace& workspace, const CaseGroup& group, at::Device device,
                  OnFailure on_failure, OnBatch on_batch);

  /// Builds model and decoders; what fails is reported and left out.
  void prepare();

  /// One pass over the dataset. With overlapped batches, passes of each arm follow each other until
  /// protocol.steady_seconds have gone by. The first one of an arm is no part of these. Results by
  /// arm; those of failed arms mean nothing. Throws Interrupted between batches.
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

  /// Begins `stage` of `arm`, or of all arms if it is null. Its time counts towards the limit of
  /// these cases. Stages of this class enter themselves.
  void enter(Arm* arm, const char* stage);
  /// The stage has come to its end: what has taken longer than protocol.case_limit_seconds fails.
  void leave();
  /// Calls `work`, which runs code of the arm's decoder, so that it leaves the model's weights as
  /// they are (algorithms/foreign_code.h); `batch`: what else it shares.
  void call(const Arm& arm, const std::function<void()>& work,
            const SharedTensors* batch = nullptr) const;

  std::vector<Arm>& arms() { return arms_; }
  size_t batches() const { return batches_.size(); }
  const AcousticModel& model() const { return *model_; }

 private:
  /// The result of one pass; an arm that failed has a part of it.
  struct OverlappedPass {
    struct Batch {
      Decoded decoded;
      RegionTimes times;
      double load_seconds = 0;
      std::chrono::steady_clock::time_point begin, end;
    };
    std::vector<Batch> batches;
    RegionTimes clock;  // wall and cpu
    std::chrono::steady_clock::time_point begin;
  };
  using Batches = std::vector<std::vector<size_t>>;  // of utterances

  /// Throws UserError where a batch cannot fit.
  void require_memory() const;
  /// Has a prepared decoder search a batch of silence (OverlappedPipeline::warm_up()).
  void warm_up(Decoder& decoder);
  Clips clips_of(const std::vector<size_t>& utterances) const {
    return rtfx::clips_of(model_->config, dataset_, utterances);
  }
  /// Runs a batch: the encoder once, then each arm, region by region. Returns the encoder's frames.
  EncodedBatch run_batch(const std::vector<size_t>& utterances, const std::vector<size_t>& order,
                         std::vector<RoundResult>& results);
  /// Results without anything in them, for each arm.
  std::vector<RoundResult> empty_results() const;
  /// One arm alone over all batches, nothing kept.
  void isolated_pass(Arm& arm, const char* stage);
  /// Each arm over all batches by itself, several of them in flight.
  void overlapped_round(const std::vector<size_t>& order, RoundKind kind,
                        std::vector<RoundResult>& results);
  /// The passes of one arm in a round.
  void overlapped_passes(Arm& arm, RoundKind kind, RoundResult& result);
  /// Adds a pass; the first one's hypotheses are the result's.
  void take_pass(const Arm& arm, OverlappedPass& pass, const Batches& batches,
                 RoundResult& result) const;
  /// Replays and compares the results of overlapped passes.
  void verify_overlapped(const std::vector<size_t>& order, std::vector<RoundResult>& results);
  OverlappedPass overlapped_pass(Arm& arm, const char* stage, const Batches& batches);
  using Reader = ReadAhead<std::vector<float>>;
  /// Begins to read the files of a pass; null where their samples are in memory, or are read batch
  /// by batch.
  std::unique_ptr<Reader> reader(const Batches& batches) const;
  void fill(const std::vector<size_t>& utterances, Reader* reader, BatchInFlight& batch) const;

  /// Adds a batch to the arm's result; `of_batch` has what `times` do not tell. Throws where its
  /// hypotheses mean nothing.
  void take(const Arm& arm, const std::vector<size_t>& utterances, Decoded decoded,
            const RegionTimes& times, BatchTime of_batch, RoundResult& result) const;
  /// Replays and compares the results of a batch, whose frames are asked for where they are needed,
  /// with the baseline's, and those of overlapped passes with isolated_.
  void verify(const std::vector<size_t>& utterances, const ReplayCheck::BatchSource& batch,
              std::vector<RoundResult>& results);
  void audit(Arm& arm, const std::vector<size_t>& utterances, const std::vector<Proof>& proofs,
             std::vector<RoundResult>& results) const;
  /// Adds the grades of a batch's results against `baseline` to `audit`.
  void add_grades(const std::vector<size_t>& utterances, const std::vector<Proof>& proofs,
                  const RoundResult& baseline, const RoundResult& result, bool same_score_kind,
                  Audit& audit) const;
  FirstPass first_pass_of(const OverlappedPass& pass) const;
  void fail(Arm& arm, const std::string& stage, const std::string& message);
  /// Describes the exception that is being handled, and names the utterance of a wrong result.
  std::string failure_of(const std::vector<size_t>& utterances) const;
  /// Whose stage is under way.
  void fail_stage(const std::string& message);
  const std::string& id_of(const std::vector<size_t>& utterances, size_t row) const;
  size_t reference_of(const Arm& arm) const;
  bool is_in_stage(const Arm& arm) const {
    return !arm.failed && (!stage_arm_ || stage_arm_ == &arm);
  }

  UnderWayScope under_way_;
  Workspace& workspace_;
  const CaseGroup& group_;
  const LoadedDataset& dataset_;
  at::Device device_;
  RegionClock clock_;
  double limit_;  // seconds that a case may take; 0: no limit
  OnFailure on_failure_;
  OnBatch on_batch_;
  OnStage on_stage_ = [](const Arm*, const char*) {};
  OnOverdue on_overdue_;
  std::string remedy_ =
      "what was recorded is kept; with `--resume --set isolate=true` such an end costs this case "
      "alone";
  const char* stage_ = nullptr;  // under way
  Arm* stage_arm_ = nullptr;
  std::chrono::steady_clock::time_point stage_begin_;
  Batches batches_, other_batches_;  // that are measured, and for warm-ups of overlapped passes
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;      // of model_
  std::optional<OverlappedPipeline> pipeline_;  // in protocol.mode throughput
  std::vector<Arm> arms_;
  std::optional<SharedTensors> weights_;  // where a decoder is foreign
  std::vector<RoundResult> isolated_;  // of a pass region by region, with which overlapped ones are
                                       // compared
  std::optional<ReplayCheck> replay_;
  std::optional<Watchdog> watchdog_;  // where cases have a limit
};

}  // namespace rtfx
