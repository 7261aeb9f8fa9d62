// Runs one group of cases: all decoders over the same encoder outputs, round after round.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

namespace rtfx {

/// One decoder of the group.
struct Arm {
  PlannedDecoder plan;
  const DecoderSpec* spec = nullptr;
  Description description;
  std::unique_ptr<Decoder> decoder;
  BoostedWords boosted;   // of the prepared decoder
  CompiledBiases biases;  // likewise
  std::optional<Confidence> confidence;
  std::optional<int64_t> kept_bytes;  // of the device, that prepare() took and kept; none where
                                      // something else gave memory back meanwhile
  std::string result_key;
  std::string first_hash;  // of its first measured round
  double seconds = 0;      // that it has taken, what all decoders of the group wait for included
  bool failed = false;
};

struct BatchTime {
  double audio_seconds = 0;    // without padding
  double total_seconds = 0;    // of all regions; overlapped, since the text of the batch before
  double decode_seconds = 0;   // of that region
  double latency_seconds = 0;  // from samples to text
};

/// The result of one decoder in one round.
struct RoundResult {
  RegionTimes times;        // summed over batches
  double seconds = 0;       // from samples to text: of all regions, or of the overlapped pass
  double load_seconds = 0;  // of reading audio files, where that is part of the pass
  std::vector<BatchTime> batches;               // in the order of the round
  int64_t order = 0;                            // position within the round
  std::vector<Hypothesis> hypotheses;           // by utterance of the dataset
  std::vector<std::vector<std::string>> words;  // the same as the scorer writes them
  std::vector<TokenEvidence> evidence;          // the same; empty without confidence
  Counters counters;                            // summed over batches
  std::optional<int64_t> decode_bytes;  // of the device, the most that a batch's decoding took;
                                        // not known of an overlapped pass
  Audit audit;                          // against the arm it is compared to
  bool audited = false;
  std::optional<ReplayAudit> replay;  // of decoders whose decisions can be recomputed
};

/// The GPU's energy for passes of one decoder alone, from samples to text.
struct EnergyUse {
  MeanPower power;
  double seconds = 0, audio_seconds = 0;  // of all passes
  int64_t passes = 0;

  double joules_per_audio_hour() const { return 3600 * power.watts * seconds / audio_seconds; }
};

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

  /// One pass over the dataset. Results by arm; those of failed arms mean nothing. Throws
  /// Interrupted between batches.
  std::vector<RoundResult> round(int64_t number);

  /// Measures the energy of one arm. It makes whole passes over the dataset with this arm alone,
  /// compares nothing, and stops after `seconds`. Arms of a round share encoder passes, and a
  /// counter that is updated every 20 to 100 ms cannot separate them. Returns none where the
  /// counter cannot be read, the time was too short (mean_power()), the arm fails, or a stand-in
  /// decoder would be counted. Throws Interrupted between batches.
  std::optional<EnergyUse> energy(Arm& arm, double seconds, const EnergyCounter& counter);

  /// Reports stages to another process, which then knows what this one was doing when it ended.
  /// Without it, an overdue stage ends the program (end_suddenly).
  void watch_stages(OnStage on_stage, OnOverdue on_overdue);

  /// From now on this is under way, of `arm` or (null) of all arms, and its time is theirs. Stages
  /// of this class enter themselves.
  void enter(Arm* arm, const char* stage);
  /// The stage has come to its end: what has taken longer than protocol.case_limit_seconds fails.
  void leave();

  std::vector<Arm>& arms() { return arms_; }
  size_t batches() const { return batches_.size(); }
  const AcousticModel& model() const { return *model_; }

 private:
  /// Throws UserError where a batch cannot fit.
  void require_memory() const;
  Clips clips_of(const std::vector<size_t>& utterances) const;
  /// Runs a batch: the encoder once, then each arm, region by region.
  void run_batch(const std::vector<size_t>& utterances, const std::vector<size_t>& order,
                 std::vector<RoundResult>& results);
  /// One arm alone over all batches, nothing kept.
  void isolated_pass(Arm& arm, const char* stage);
  /// Each arm over all batches by itself, several of them in flight.
  void overlapped_round(const std::vector<size_t>& order, std::vector<RoundResult>& results);
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
  OverlappedPass overlapped_pass(Arm& arm, const char* stage);
  bool fill(size_t number, BatchInFlight& batch) const;
  const EncodedBatch* stand_in_frames(size_t number) const;

  /// Adds a batch to the arm's result; `of_batch` has what `times` do not tell. Throws where its
  /// hypotheses mean nothing.
  void take(const std::vector<size_t>& utterances, Decoded decoded, const RegionTimes& times,
            BatchTime of_batch, RoundResult& result) const;
  /// Replays and compares the results of a batch, whose frames are asked for where they are needed.
  void verify(const std::vector<size_t>& utterances, const ReplayCheck::BatchSource& batch,
              std::vector<RoundResult>& results);
  void audit(Arm& arm, const std::vector<size_t>& utterances, const std::vector<Proof>& proofs,
             std::vector<RoundResult>& results) const;
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
  const char* stage_ = nullptr;  // under way
  Arm* stage_arm_ = nullptr;
  std::chrono::steady_clock::time_point stage_begin_;
  std::vector<std::vector<size_t>> batches_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;      // of model_
  std::optional<OverlappedPipeline> pipeline_;  // in protocol.mode throughput
  std::vector<EncodedBatch> stand_in_frames_;   // by batch, where decoders read those of a stand-in
  std::vector<Arm> arms_;
  std::optional<ReplayCheck> replay_;
  std::optional<Watchdog> watchdog_;  // where cases have a limit
};

}  // namespace rtfx
