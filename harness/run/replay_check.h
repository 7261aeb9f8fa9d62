// Replays what decoders return (algorithms/shared/replay/replay.h), each different hypothesis of an
// utterance once: decoders that agree, and rounds that repeat, share a replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/replay/replay.h"
#include "datasets/dataset.h"
#include "harness/run/compiled_biases.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

class ReplayCheck {
 public:
  using BatchSource = std::function<const EncodedBatch&()>;

  explicit ReplayCheck(std::shared_ptr<const AcousticModel> model) : model_(std::move(model)) {}

  /// hypotheses[utterances[row]], with its n-best list, is the decoder's result for row `row` of
  /// `batch`, which is asked for where something in it has not been replayed yet. `biases`: of all
  /// utterances. Adds to `audit`, which stays empty for decoders whose decisions cannot be
  /// recomputed. A proof for each row. Waits for the device.
  std::vector<Proof> check(const Decoder& decoder, const CompiledBiases& biases,
                           const std::vector<size_t>& utterances, const BatchSource& batch,
                           const std::vector<Hypothesis>& hypotheses,
                           const std::vector<Utterance>& names, std::optional<ReplayAudit>& audit);

  /// Says why a decoder's results are not replayed. Either replay does not follow this kind of
  /// model, or the decoder is declared approximate, or an option of the search prevents it. Empty
  /// where none of these holds.
  static std::string left_out(const Decoder& decoder, const ModelConfig& model);

  /// Gives the copies of weights back; results are kept.
  void release() { replays_.clear(); }

 private:
  struct Known {
    Hypothesis path;  // its score does not count
    Replayed replayed;
  };
  using Results = std::map<size_t, std::vector<Known>>;  // by utterance

  /// Replays all paths of the batch that are not known yet. `own` has the meaning of own_; it is
  /// null where rules.bias is empty.
  void replay(const ReplayRules& rules, const std::shared_ptr<const CompiledBias>& own,
              const CompiledBiases& biases, const std::vector<size_t>& utterances,
              const BatchSource& batch, const std::vector<Hypothesis>& hypotheses,
              Results& results);

  std::shared_ptr<const AcousticModel> model_;
  std::map<Head, Replay> replays_;
  std::map<std::string, Results> results_;  // by ReplayRules::key()
  std::map<std::string, std::shared_ptr<const CompiledBias>>
      own_;  // likewise, of rows without others
};

}  // namespace rtfx
