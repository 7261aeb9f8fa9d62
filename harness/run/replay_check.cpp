#include "harness/run/replay_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"

namespace rtfx {
namespace {

bool same_path(const Hypothesis& a, const Hypothesis& b) {
  return a.tokens == b.tokens && a.frames == b.frames && a.durations == b.durations;
}

/// Returns the texts of a result: its n-best list, or the result itself.
std::vector<const Hypothesis*> texts_of(const Hypothesis& result) {
  if (result.nbest.empty()) return {&result};
  std::vector<const Hypothesis*> texts;
  for (const Hypothesis& entry : result.nbest) texts.push_back(&entry);
  return texts;
}

template <class Known>
const Replayed* find(const std::vector<Known>& list, const Hypothesis& wanted) {
  const auto found =
      std::ranges::find_if(list, [&](const Known& one) { return same_path(one.path, wanted); });
  return found == list.end() ? nullptr : &found->replayed;
}

}  // namespace

void ReplayCheck::replay(const ReplayRules& rules, const std::shared_ptr<const CompiledBias>& own,
                         const CompiledBiases& biases, const std::vector<size_t>& utterances,
                         const BatchSource& batch, const std::vector<Hypothesis>& hypotheses,
                         Results& results) {
  std::vector<int64_t> rows;
  std::vector<const Hypothesis*> wanted;
  for (size_t row = 0; row < utterances.size(); ++row) {
    for (const Hypothesis* text : texts_of(hypotheses[utterances[row]])) {
      if (find(results[utterances[row]], *text) != nullptr) continue;
      rows.push_back(static_cast<int64_t>(row));
      wanted.push_back(text);
    }
  }
  if (rows.empty()) return;
  const Replay& replay = replays_.try_emplace(rules.head, model_, rules.head).first->second;
  EncodedBatch encoded = biases.with_biases(batch(), utterances);
  if (own) {
    encoded.biases.resize(utterances.size());
    for (auto& bias : encoded.biases)
      if (!bias) bias = own;
  }
  std::vector<Replayed> replayed = rules.is_beam() ? replay.beam(encoded, rows, wanted, rules)
                                                   : replay.greedy(encoded, rows, wanted, rules);
  for (size_t i = 0; i < rows.size(); ++i) {
    Known known{*wanted[i], std::move(replayed[i])};
    known.path.nbest.clear();
    results[utterances[static_cast<size_t>(rows[i])]].push_back(std::move(known));
  }
}

std::string ReplayCheck::left_out(const Decoder& decoder, const ModelConfig& model) {
  if (model.is_multiblank() && decoder.describe().head == Head::transducer)
    return "decisions between several blanks are not recomputed";
  nlohmann::json options = decoder.options();
  const bool is_foreign = decoder.is_foreign();
  if (ReplayRules::from(decoder.describe(), options, is_foreign)) return "";
  if (decoder.describe().has_own_rule) return "the decoder follows a rule that is not recomputed";
  Description as_exact = decoder.describe();
  as_exact.exactness = Description::Exactness::exact;
  if (ReplayRules::from(as_exact, options, is_foreign))
    return "the decoder is declared approximate, so that its decisions may follow another rule";
  if (!options.is_object()) return "";
  options.erase("boost");
  options.erase("allowed");
  if (is_foreign) options.erase("lm");
  if (!ReplayRules::from(as_exact, options, is_foreign)) return "";
  return is_foreign
             ? "the options `lm`, `boost` and `allowed` of a plug-in may follow another rule"
             : "scores of a beam are not recomputed with boosted phrases or allowed characters";
}

std::vector<Proof> ReplayCheck::check(const Decoder& decoder, const CompiledBiases& biases,
                                      const std::vector<size_t>& utterances,
                                      const BatchSource& batch,
                                      const std::vector<Hypothesis>& hypotheses,
                                      const std::vector<Utterance>& names,
                                      std::optional<ReplayTotals>& totals) {
  std::vector<Proof> proofs(utterances.size(), Proof::none);
  const auto rules = ReplayRules::from(decoder.describe(), decoder.options(), decoder.is_foreign());
  const bool several_blanks =
      model_->config.is_multiblank() && rules && rules->head == Head::transducer;
  if (!rules || several_blanks) return proofs;
  Results& results = results_[rules->key()];
  std::shared_ptr<const CompiledBias> own;
  if (!rules->bias.empty()) {
    std::shared_ptr<const CompiledBias>& known = own_[rules->key()];
    if (!known) known = decoder.compile_bias({});
    own = known;
  }
  replay(*rules, own, biases, utterances, batch, hypotheses, results);
  if (!totals) totals.emplace();
  for (size_t row = 0; row < utterances.size(); ++row) {
    const size_t utterance = utterances[row];
    bool within = true;
    for (const Hypothesis* text : texts_of(hypotheses[utterance])) {
      const Replayed replayed = find(results[utterance], *text)->with_score(text->score);
      totals->add(names[utterance].id, replayed);
      within = within && replayed.within();
    }
    proofs[row] = !within ? Proof::failed : rules->is_beam() ? Proof::none : Proof::within;
  }
  return proofs;
}

}  // namespace rtfx
