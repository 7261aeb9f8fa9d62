#include "algorithms/decoders/beam/aes/aes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

int64_t index_of_zero(const std::vector<int64_t>& durations) {
  const auto zero = std::find(durations.begin(), durations.end(), 0);
  return zero == durations.end() ? -1 : zero - durations.begin();
}

bool possible(const HostHypothesis& h) { return std::isfinite(h.score); }

}  // namespace

const OptionTable<AesOptions>& AesOptions::table() {
  using O = AesOptions;
  static const OptionTable<O> table{{
      option("beam_size", &O::beam_size, kTransducerBeamSizeHelp, 1, 1000),
      option("num_steps", &O::num_steps, kTokensPerFrameHelp, 1, 100),
      option("prefix_alpha", &O::prefix_alpha,
             "Prefix search adds to a hypothesis the probability of its prefixes in the beam that "
             "are at most this many tokens shorter. 0: no prefix search.",
             0, 1000),
      option("expansion_beta", &O::expansion_beta,
             "Each hypothesis is expanded by its best labels, whose number is `beam_size` + this "
             "value. A sum above the number of the model's tokens is an error.",
             0, 1000),
      option("expansion_gamma", &O::expansion_gamma,
             "A label is left out if its ln p is lower than that of the hypothesis's best label by "
             "more than this value.",
             0, 1e4),
      option("score_norm", &O::score_norm, kScoreNormHelp),
      option("nbest", &O::nbest, kNbestHelp, 1, 1000),
      mbr_option(&O::mbr),
      option("temperature", &O::temperature, kTemperatureHelp, 1e-3, 1e3),
      blank_penalty_option(&O::blank_penalty),
      option("lm", &O::lm,
             "N-gram language model over tokens. Labels are chosen by acoustic scores, and then "
             "the language model's score is added to tokens.",
             greedy_lm_options()),
  }};
  return table;
}

namespace {
const Register<Aes> registered{
    "aes", "Beam search of RNN-T and TDT by adaptive expansion (AES), one utterance at a time"};
}

/// The search over one utterance.
class Aes::Search {
 public:
  /// `encoded` [T, H] holds projected frames. `lm` is on the CPU, or null. All arguments must
  /// outlive this object.
  Search(const Options& options, const Transducer& transducer, const NgramLm* lm,
         const at::Tensor& encoded, HostReads& host);

  /// Returns ranked hypotheses, none if a score is NaN.
  std::vector<Hypothesis> run();

  int64_t joint_calls() const { return lattice_.joint_calls(); }
  int64_t predictor_calls() const { return lattice_.tree().predictor_calls(); }

 private:
  using Text = PredictionTree::Text;

  void prefix_search(HostBeam& here, int64_t time);
  HostBeam expand(const HostBeam& here);
  HostBeam with_blanks(const HostBeam& here);
  HostBeam candidates(const HostHypothesis& h, const HostLogProbs& next, size_t row);
  HostHypothesis with_blank(const HostHypothesis& h, const HostLogProbs& next, size_t row) const;
  double lm_score(Text text);

  const Options& options_;
  const NgramLm* lm_;
  const int32_t blank_;
  const int64_t zero_duration_;  // TDT: index of the duration 0; -1 if there is none
  const bool tdt_;
  HostLattice lattice_;
  bool nan_ = false;

  struct LmStep {
    double score;  // alpha * ln p(last token | text before it)
    int32_t state;
  };
  std::map<Text, LmStep> lm_steps_;  // cache of lm_score()
};

Description Aes::describe() const {
  return {
      "aes", Head::transducer, Description::Exactness::approximate, {"rnnt", "tdt"}, kBeamScore};
}

void Aes::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  require_beam_fits(describe(), options_.beam_size, *model, options_.expansion_beta);
  if (options_.lm && options_.lm->alpha != 0) lm_ = load_lm(*options_.lm, *model)->to(at::kCPU);
  transducer_.emplace(std::move(model), Transducer::Options{});
}

Counters Aes::counters() const {
  return {
      {"joint_calls", joint_calls_}, {"pred_calls", pred_calls_}, {"host_reads", host_.count()}};
}

Hypotheses Aes::decode(const EncodedBatch& batch) {
  host_.reset();
  joint_calls_ = pred_calls_ = 0;
  return search_one_by_one(
      *transducer_, batch, options_.nbest, host_, [this](const at::Tensor& encoded) {
        Search search(options_, *transducer_, lm_ ? &*lm_ : nullptr, encoded, host_);
        std::vector<Hypothesis> ranked = search.run();
        joint_calls_ += search.joint_calls();
        pred_calls_ += search.predictor_calls();
        return ranked;
      });
}

Aes::Search::Search(const Options& options, const Transducer& transducer, const NgramLm* lm,
                    const at::Tensor& encoded, HostReads& host)
    : options_(options),
      lm_(lm),
      blank_(static_cast<int32_t>(transducer.blank())),
      zero_duration_(index_of_zero(transducer.duration_list())),
      tdt_(transducer.is_tdt()),
      lattice_(transducer, encoded, options.temperature, host) {
  if (lm_ == nullptr) return;
  const at::Tensor start = lm_->initial_states(1);
  lm_steps_[PredictionTree::kEmpty] = {0, *data_of<int32_t>(start)};
}

std::vector<Hypothesis> Aes::Search::run() {
  HostBeam beam(1);
  for (int64_t t = 0; t < lattice_.frames(); ++t) {
    const auto later = std::stable_partition(beam.begin(), beam.end(),
                                             [t](const HostHypothesis& h) { return h.time == t; });
    HostBeam here(beam.begin(), later);
    beam.erase(beam.begin(), later);
    if (here.empty()) continue;
    prefix_search(here, t);
    HostBeam moved = expand(here);
    if (nan_) return {};
    // The language model may give ln p = -inf to all labels that were chosen. The frame then ends
    // with blanks, which it does not score.
    if (std::ranges::none_of(beam, possible) && std::ranges::none_of(moved, possible))
      moved = with_blanks(here);
    beam.insert(beam.end(), moved.begin(), moved.end());
    keep_best(beam, beam.size());
    merge_equal(beam, /*same_time=*/true);
    keep_best(beam, static_cast<size_t>(options_.beam_size));
  }
  return rank(beam, lattice_.tree(), options_.score_norm, options_.nbest);
}

/// Adds the probabilities of prefixes, to the longest texts first. So a prefix passes on the score
/// that it had before.
void Aes::Search::prefix_search(HostBeam& here, int64_t time) {
  if (tdt_ && zero_duration_ < 0) return;  // no token stays at its frame
  const PredictionTree& tree = lattice_.tree();
  std::stable_sort(here.begin(), here.end(), [&](const HostHypothesis& a, const HostHypothesis& b) {
    return tree.length(a.text) > tree.length(b.text);
  });
  struct Pair {
    size_t longer, shorter;
    std::vector<Text> path;  // texts from the longer one to the one after the shorter one
  };
  std::vector<Pair> pairs;
  std::map<Text, size_t> rows;
  std::vector<HostLattice::Node> nodes;
  for (size_t j = 0; j < here.size(); ++j) {
    for (size_t i = j + 1; i < here.size(); ++i) {
      const int64_t gap = tree.length(here[j].text) - tree.length(here[i].text);
      if (gap < 1 || gap > options_.prefix_alpha) continue;
      Pair pair{j, i, {here[j].text}};
      while (static_cast<int64_t>(pair.path.size()) < gap)
        pair.path.push_back(tree.parent(pair.path.back()));
      if (tree.parent(pair.path.back()) != here[i].text) continue;
      for (const Text text : pair.path) {
        if (rows.emplace(tree.parent(text), nodes.size()).second)
          nodes.push_back({tree.parent(text), time});
      }
      pairs.push_back(std::move(pair));
    }
  }
  if (pairs.empty()) return;
  const HostLogProbs next = lattice_.log_probs(nodes);
  for (const Pair& pair : pairs) {
    double score = here[pair.shorter].score;
    for (const Text text : pair.path) {
      const size_t row = rows.at(tree.parent(text));
      score += next.label(row, tree.last_token(text)) + lm_score(text);
      if (tdt_) score += next.duration(row, zero_duration_);
    }
    here[pair.longer].score = log_add(here[pair.longer].score, score);
  }
}

/// Returns the hypotheses after the label that leaves the frame: blank, or for TDT also a token.
HostBeam Aes::Search::expand(const HostBeam& here) {
  std::set<Text> present;
  for (const HostHypothesis& h : here) present.insert(h.text);
  HostBeam moved, expanding = here;
  bool open = true;  // `expanding` holds texts that were not expanded yet
  for (int64_t n = 0; open && n < options_.num_steps; ++n) {
    const HostLogProbs next = lattice_.log_probs(expanding);
    if (next.nan()) {
      nan_ = true;
      return {};
    }
    HostBeam longer;
    for (size_t i = 0; i < expanding.size(); ++i) {
      for (HostHypothesis& candidate : candidates(expanding[i], next, i)) {
        if (candidate.time > expanding[i].time) {
          moved.push_back(std::move(candidate));
        } else if (!present.contains(candidate.text)) {
          longer.push_back(std::move(candidate));
        }
      }
    }
    open = !longer.empty();
    if (open) expanding = std::move(longer);
  }
  if (!open && !moved.empty()) return moved;
  const HostBeam blanks = with_blanks(expanding);
  moved.insert(moved.end(), blanks.begin(), blanks.end());
  return moved;
}

/// Returns the hypotheses, each followed by a blank. Makes a joint call.
HostBeam Aes::Search::with_blanks(const HostBeam& here) {
  const HostLogProbs next = lattice_.log_probs(here);
  HostBeam moved;
  for (size_t i = 0; i < here.size(); ++i) moved.push_back(with_blank(here[i], next, i));
  return moved;
}

HostBeam Aes::Search::candidates(const HostHypothesis& h, const HostLogProbs& next, size_t row) {
  const auto most = static_cast<size_t>(options_.beam_size + options_.expansion_beta);
  HostBeam all;
  for (const int32_t label : next.best_labels(row, blank_ + 1, static_cast<int64_t>(most))) {
    const bool blank = label == blank_;
    const Text text = blank ? h.text : lattice_.tree().extended(h.text, label);
    for (const Move& move : lattice_.moves(next, row)) {
      all.push_back(h.after(text, next.label(row, label) + move.log_prob,
                            blank ? move.blank_frames : move.token_frames));
    }
  }
  keep_best(all, most);
  const double worst = all.front().score - options_.expansion_gamma;
  std::erase_if(all, [worst](const HostHypothesis& c) { return c.score < worst; });
  for (HostHypothesis& candidate : all)
    if (candidate.text != h.text) candidate.score += lm_score(candidate.text);
  return all;
}

HostHypothesis Aes::Search::with_blank(const HostHypothesis& h, const HostLogProbs& next,
                                       size_t row) const {
  const std::vector<Move> moves = lattice_.moves(next, row);
  Move best = *std::max_element(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.log_prob < b.log_prob;
  });
  if (tdt_ && best.token_frames == 0) {
    const auto frames = [](const Move& m) {
      return m.token_frames > 0 ? m.token_frames : std::numeric_limits<int64_t>::max();
    };
    best = *std::min_element(moves.begin(), moves.end(),
                             [&](const Move& a, const Move& b) { return frames(a) < frames(b); });
  }
  return h.after(h.text, next.label(row, blank_) + best.log_prob, best.blank_frames);
}

/// Returns the language model's score of the last token of `text`.
double Aes::Search::lm_score(Text text) {
  if (lm_ == nullptr) return 0;
  if (const auto known = lm_steps_.find(text); known != lm_steps_.end()) return known->second.score;
  const PredictionTree& tree = lattice_.tree();
  lm_score(tree.parent(text));  // makes sure that the parent's state is known
  const int32_t state = lm_steps_.at(tree.parent(text)).state;
  const NgramLm::Step step = lm_->lookup(at::full({1}, state, at::kInt),
                                         at::full({1, 1}, tree.last_token(text), at::kLong));
  const double score = options_.lm->alpha * *data_of<float>(step.scores);
  lm_steps_[text] = {score, *data_of<int32_t>(step.next)};
  return score;
}

}  // namespace rtfx
