// Replays the results of decoders (algorithms/shared/replay/replay.h). Equal hypotheses of one
// utterance are replayed once, so decoders that agree and rounds that repeat share a replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/replay/replay.h"
#include "datasets/utterance.h"
#include "harness/run/compiled_biases.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

class ReplayCheck {
 public:
  using BatchSource = std::function<const EncodedBatch&()>;

  explicit ReplayCheck(std::shared_ptr<const AcousticModel> model) : model_(std::move(model)) {}

  /// Replays the results of one batch, and returns a proof for each row.
  /// hypotheses[utterances[row]] is the decoder's result for `row`, with its n-best list. `biases`
  /// holds those of all utterances. `batch` is called only if some hypothesis has not been replayed
  /// before. Adds to `totals`, which stays empty for decoders whose decisions cannot be recomputed.
  /// Waits for the device.
  std::vector<Proof> check(const Decoder& decoder, const CompiledBiases& biases,
                           const std::vector<size_t>& utterances, const BatchSource& batch,
                           const std::vector<Hypothesis>& hypotheses,
                           const std::vector<Utterance>& names,
                           std::optional<ReplayTotals>& totals);

  /// Returns why a decoder's results are not replayed, or an empty text if they are. There are
  /// three reasons: replay does not support this kind of model, the decoder is declared
  /// approximate, or an option of the search prevents it.
  static std::string left_out(const Decoder& decoder, const ModelConfig& model);

  /// Frees the copies of weights; results are kept.
  void release() { replays_.clear(); }

 private:
  struct Known {
    Hypothesis path;  // compared without its score
    Replayed replayed;
  };
  using Results = std::map<size_t, std::vector<Known>>;  // indexed by utterance

  /// Replays all paths of the batch that are not known yet. `own` has the meaning of own_. It is
  /// null if rules.bias is empty.
  void replay(const ReplayRules& rules, const std::shared_ptr<const CompiledBias>& own,
              const CompiledBiases& biases, const std::vector<size_t>& utterances,
              const BatchSource& batch, const std::vector<Hypothesis>& hypotheses,
              Results& results);

  std::shared_ptr<const AcousticModel> model_;
  std::map<Head, Replay> replays_;
  std::map<std::string, Results> results_;  // indexed by ReplayRules::key()
  std::map<std::string, std::shared_ptr<const CompiledBias>>
      own_;  // likewise, of rows without others
};

}  // namespace rtfx
