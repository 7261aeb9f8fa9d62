#include "algorithms/shared/replay/replay.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/biasing/greedy_fusion.h"
#include "algorithms/shared/replay/greedy_path.h"
#include "algorithms/shared/replay/inputs.h"

namespace rtfx {

namespace {

/// Judges places, a chunk at a time.
class Judge {
 public:
  Judge(const ReplayNetwork& network, const ReplayRules& rules, const ReplayInputs& inputs)
      : network_(network), rules_(rules), inputs_(inputs) {}

  std::vector<Judged> operator()(const std::vector<Place>& places) const {
    std::vector<Judged> all;
    all.reserve(places.size());
    const size_t chunk = network_.rows_within(Replay::kChunkBytes);
    for (size_t first = 0; first < places.size(); first += chunk) {
      const size_t end = std::min(places.size(), first + chunk);
      judge({places.begin() + static_cast<int64_t>(first),
             places.begin() + static_cast<int64_t>(end)},
            all);
    }
    return all;
  }

 private:
  void judge(const std::vector<Place>& places, std::vector<Judged>& all) const {
    const at::Device device = inputs_.device();
    const at::Tensor label = member_of(places, &Place::label, device);
    const at::Tensor prefix = inputs_.prefixes_of(member_of(places, &Place::row, device),
                                                  member_of(places, &Place::prefix, device));
    auto outputs = network_.outputs(inputs_.encoded_at(member_of(places, &Place::row, device),
                                                       member_of(places, &Place::frame, device)),
                                    inputs_.predictions_at(prefix));
    const at::Tensor forbidden = inputs_.forbidden(member_of(places, &Place::row, device));
    // This logit is far below all others, but finite, so that variances stay finite.
    constexpr double kForbidden = -1e4;
    if (forbidden.defined())
      outputs.logits.narrow(1, 0, forbidden.size(1)).masked_fill_(forbidden, kForbidden);
    std::vector<Judged> judged(places.size());
    const at::Tensor labels = outputs.logits.narrow(1, 0, network_.labels());
    enter_labels(outputs, label, labels.argmax(1), {}, judged);
    Uncertain score = rules_.score_kind == "logprob"
                          ? network_.log_prob(outputs, label, 0, network_.labels())
                          : network_.logit(outputs, label);
    const at::Tensor bonus = inputs_.bonuses(prefix, outputs.logits.scalar_type());
    if (bonus.defined())
      score.value = score.value + enter_fused(outputs, places, label, bonus, forbidden, judged);
    if (network_.durations() > 0) enter_durations(outputs, judged);
    const auto values = numbers(score.value), variances = numbers(score.variance);
    for (size_t i = 0; i < judged.size(); ++i) {
      judged[i].score = values[i];
      judged[i].variance = variances[i];
      all.push_back(std::move(judged[i]));
    }
  }

  /// Judges `chosen` against `best`. `more` [N] is added to the gap of their logits: the bonus of
  /// `best` minus that of `chosen`.
  void enter_labels(const ReplayNetwork::Outputs& outputs, const at::Tensor& chosen,
                    const at::Tensor& best, const at::Tensor& more, std::vector<Judged>& judged,
                    const std::vector<Place>* tokens = nullptr, bool worse = false) const {
    at::Tensor gap = outputs.logits.gather(1, best.unsqueeze(1)).squeeze(1) -
                     outputs.logits.gather(1, chosen.unsqueeze(1)).squeeze(1);
    if (more.defined()) gap = gap + more;
    const auto gaps = numbers(gap), bounds = numbers(network_.bound(outputs, chosen, best)),
               bests = numbers(best);
    for (size_t i = 0; i < judged.size(); ++i) {
      if (tokens != nullptr && !(*tokens)[i].is_token) continue;
      const Judged::Choice choice{gaps[i], bounds[i], static_cast<int64_t>(bests[i])};
      if (!worse || choice.ratio() > judged[i].label.ratio()) judged[i].label = choice;
    }
  }

  /// Judges tokens, which are chosen by the sum of logit and bonus once some token is the best
  /// label. Returns the bonus of the places' labels, which is 0 for other labels than tokens.
  at::Tensor enter_fused(const ReplayNetwork::Outputs& outputs, const std::vector<Place>& places,
                         const at::Tensor& label, const at::Tensor& bonus,
                         const at::Tensor& forbidden, std::vector<Judged>& judged) const {
    const int64_t vocabulary = network_.labels() - 1;
    const at::Tensor logits = outputs.logits.narrow(1, 0, vocabulary);
    const at::Tensor best = outputs.logits.narrow(1, 0, network_.labels()).argmax(1);
    enter_labels(outputs, logits.argmax(1), best, {}, judged, &places);
    at::Tensor sum = logits + bonus;
    const at::Tensor previous = member_of(places, &Place::previous, label.device()).unsqueeze(1);
    at::Tensor excluded = at::arange(vocabulary, previous.options()).unsqueeze(0) == previous;
    if (forbidden.defined()) excluded = excluded.logical_or(forbidden);
    const at::Tensor fused =
        sum.masked_fill(excluded, -std::numeric_limits<double>::infinity()).argmax(1);
    const auto bonus_for = [&](const at::Tensor& which) {
      return bonus.gather(1, which.clamp_max(vocabulary - 1).unsqueeze(1)).squeeze(1);
    };
    enter_labels(outputs, label, fused, bonus_for(fused) - bonus_for(label), judged, &places,
                 /*worse=*/true);
    // The bonus took no part in the decision for blank, or at a frame that repeats a token. It may
    // be -inf there, and 0 * -inf would be NaN.
    std::vector<int64_t> is_token;
    for (const Place& place : places) is_token.push_back(place.is_token ? 1 : 0);
    const at::Tensor is_other = at::tensor(is_token, at::kLong).to(label.device()) == 0;
    return bonus_for(label).masked_fill(is_other, 0);
  }

  void enter_durations(const ReplayNetwork::Outputs& outputs, std::vector<Judged>& judged) const {
    const at::Tensor logits = outputs.logits.narrow(1, network_.labels(), network_.durations());
    const at::Tensor best = logits.argmax(1);
    const auto bests = numbers(best);
    for (int64_t d = 0; d < network_.durations(); ++d) {
      const at::Tensor chosen = at::full_like(best, d);
      const auto gaps = numbers(logits.amax(1) - logits.select(1, d));
      const auto bounds =
          numbers(network_.bound(outputs, chosen + network_.labels(), best + network_.labels()));
      for (size_t i = 0; i < judged.size(); ++i)
        judged[i].durations.push_back({gaps[i], bounds[i], static_cast<int64_t>(bests[i])});
    }
  }

  const ReplayNetwork& network_;
  const ReplayRules& rules_;
  const ReplayInputs& inputs_;
};

}  // namespace

Replay::Replay(std::shared_ptr<const AcousticModel> model, Head head)
    : model_(model), network_(std::move(model), head) {}

std::vector<Replayed> Replay::greedy(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                                     const std::vector<const Hypothesis*>& hypotheses,
                                     const ReplayRules& rules) const {
  if (rows.empty()) return {};
  const ReplayNetwork network = network_.penalised(rules.blank_penalty);
  const bool ctc = rules.head == Head::ctc;
  const bool is_tdt = network.durations() > 0;
  const int64_t blank = network.labels() - 1;
  std::vector<Place> places;
  std::vector<std::vector<Segment>> segments;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const int64_t length = batch.lengths_host[static_cast<size_t>(rows[i])];
    segments.push_back(ctc ? ctc_places(*hypotheses[i], row, length, blank, places)
                           : transducer_places(*hypotheses[i], row, length, blank, is_tdt,
                                               rules.max_symbols, places));
  }
  const ReplayInputs inputs(network, *model_, batch, rows, hypotheses, rules.lm,
                            !rules.bias.empty());
  const std::vector<Judged> judged = Judge(network, rules, inputs)(places);
  std::vector<Replayed> results;
  for (size_t i = 0; i < rows.size(); ++i) {
    results.push_back(
        ctc ? follow_ctc(segments[i], places, judged)
            : follow_transducer(*hypotheses[i], segments[i], places, judged,
                                is_tdt ? model_->config.durations : std::vector<int64_t>{}));
  }
  return results;
}

namespace {

using nlohmann::json;

constexpr const char* kWhere = "replay";

/// Returns the option as a T, or `otherwise` where a plug-in has no option of that name and type.
template <class T>
T value_of(const json& options, const char* name, T otherwise) {
  const json value = options.is_object() ? options.value(name, json()) : json();
  try {
    return value.is_null() ? otherwise : value.get<T>();
  } catch (const json::exception&) {
    return otherwise;
  }
}

/// Returns whether options make a decoder repeat another program's arithmetic.
bool follows_other_rules(const json& options) {
  return value_of(options, "compatibility", std::string("none")) != "none" ||
         // With such a limit, a search may return hypotheses that have not reached the last frame.
         // Their scores are not those of whole texts.
         value_of(options, "max_target_abs", int64_t{0}) > 0 ||
         value_of(options, "max_target_ratio", 1.0) < 1;
}

/// Returns the boosted phrases and the allowed characters as text; empty without any.
std::string bias_of(const json& options) {
  const json boost = value_of(options, "boost", json());
  const json allowed = value_of(options, "allowed", json::array());
  // An option "boost" without this member is that of another decoder and means something else.
  const bool boosts = boost.is_object() && boost.contains("context_score");
  if (!boosts && (!allowed.is_array() || allowed.empty())) return "";
  return json{boosts ? boost : json(), allowed}.dump();
}

}  // namespace

bool ReplayRules::is_beam() const { return score_kind == kBeamScore || is_monotonic(); }

bool ReplayRules::is_monotonic() const { return score_kind == kMonotonicBeamScore; }

bool ReplayRules::may_be_unfinished(int64_t tokens, int64_t frames) const {
  return max_target_ratio > 0 &&
         tokens > static_cast<int64_t>(max_target_ratio * static_cast<double>(frames));
}

std::string ReplayRules::key() const {
  const std::string fused =
      lm ? fmt::format("{} {} {} {} {} {} {}", lm->path.string(), lm->alpha, lm->beta,
                       lm->blank_scoring, lm->pruning, lm->blank_eps, lm->normalize_unk)
         : "";
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", static_cast<int>(head), score_kind,
                     max_symbols, temperature, sums_alignments, ends_text, blank_penalty,
                     max_target_ratio, fused, bias);
}

std::optional<ReplayRules> ReplayRules::from(const Description& decoder, const json& options,
                                             bool is_foreign) {
  ReplayRules rules;
  rules.head = decoder.head;
  rules.score_kind = decoder.score_kind;
  const bool greedy = rules.score_kind == "logit" || rules.score_kind == "logprob";
  if (decoder.head == Head::none || (!greedy && !rules.is_beam()) || decoder.has_own_rule ||
      follows_other_rules(options))
    return std::nullopt;
  const json lm = value_of(options, "lm", json());
  // Options of these names may mean something else in a foreign decoder.
  if (is_foreign && (lm.is_object() || !bias_of(options).empty())) return std::nullopt;
  if (lm.is_object()) {
    rules.lm = (greedy ? greedy_lm_options() : beam_lm_options()).fill(lm, kWhere);
    // Searches without the option blank_scoring leave blanks unchanged.
    if (!lm.contains("blank_scoring")) rules.lm->blank_scoring = "no_score";
  }
  if (greedy && !uses_lm(rules.lm)) rules.lm.reset();
  rules.bias = bias_of(options);
  rules.blank_penalty = is_foreign ? 0 : blank_penalty_of(options);
  // The score of a beam's text would have to follow the phrases through all of its alignments.
  if (rules.is_beam() && !rules.bias.empty()) return std::nullopt;
  // Other approximate decoders have a rule of their own.
  if (greedy && !rules.lm && rules.bias.empty() && rules.blank_penalty == 0 &&
      decoder.exactness != Description::Exactness::exact)
    return std::nullopt;
  rules.max_symbols = value_of(options, "max_symbols", int64_t{0});
  rules.temperature = value_of(options, "temperature", 1.0);
  if (rules.is_beam()) rules.max_target_ratio = value_of(options, "max_target_ratio", 0.0);
  rules.sums_alignments = value_of<std::string>(options, "merge", "sum") == "sum";
  rules.ends_text = value_of(options, "lm_end", false);
  return rules;
}

}  // namespace rtfx
