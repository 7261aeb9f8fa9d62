#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/shared/biasing/greedy_fusion.h"
#include "algorithms/shared/replay/replay.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr const char* kWhere = "replay";

/// The option as a T; `otherwise` where a plug-in has none of that name and type.
template <class T>
T value_of(const json& options, const char* name, T otherwise) {
  const json value = options.is_object() ? options.value(name, json()) : json();
  try {
    return value.is_null() ? otherwise : value.get<T>();
  } catch (const json::exception&) {
    return otherwise;
  }
}

/// Options that make a decoder repeat another program's arithmetic.
bool follows_other_rules(const json& options) {
  return value_of(options, "compatibility", std::string("none")) != "none" ||
         // Too few tokens for some texts: then hypotheses without an end are results.
         value_of(options, "max_target_abs", int64_t{0}) > 0 ||
         value_of(options, "max_target_ratio", 1.0) < 1;
}

/// Phrases that are boosted and characters that are allowed; empty without any.
std::string bias_of(const json& options) {
  const json boost = value_of(options, "boost", json());
  const json allowed = value_of(options, "allowed", json::array());
  // Another decoder's option of that name is another thing.
  const bool boosts = boost.is_object() && boost.contains("context_score");
  if (!boosts && (!allowed.is_array() || allowed.empty())) return "";
  return json{boosts ? boost : json(), allowed}.dump();
}

}  // namespace

bool ReplayRules::is_beam() const { return score_kind == "text_logprob"; }

std::string ReplayRules::key() const {
  const std::string fused =
      lm ? fmt::format("{} {} {} {} {} {} {}", lm->path.string(), lm->alpha, lm->beta,
                       lm->blank_scoring, lm->pruning, lm->blank_eps, lm->normalize_unk)
         : "";
  return fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(head), score_kind, max_symbols,
                     temperature, sums_alignments, ends_text, fused, bias);
}

std::optional<ReplayRules> ReplayRules::from(const Description& decoder, const json& options) {
  ReplayRules rules;
  rules.head = decoder.head;
  rules.score_kind = decoder.score_kind;
  const bool greedy = rules.score_kind == "logit" || rules.score_kind == "logprob";
  if (decoder.head == Head::none || (!greedy && !rules.is_beam()) || follows_other_rules(options))
    return std::nullopt;
  const json lm = value_of(options, "lm", json());
  if (lm.is_object()) {
    rules.lm = (greedy ? greedy_lm_options() : beam_lm_options()).fill(lm, kWhere);
    // Searches without the choice have this one.
    if (!lm.contains("blank_scoring")) rules.lm->blank_scoring = "no_score";
  }
  if (greedy && !uses_lm(rules.lm)) rules.lm.reset();
  rules.bias = bias_of(options);
  // The score of a beam's text would have to follow the phrases through all of its alignments.
  if (rules.is_beam() && !rules.bias.empty()) return std::nullopt;
  // Other decoders that are declared approximate have a rule of their own.
  if (greedy && !rules.lm && rules.bias.empty() &&
      decoder.exactness != Description::Exactness::exact)
    return std::nullopt;
  rules.max_symbols = value_of(options, "max_symbols", int64_t{0});
  rules.temperature = value_of(options, "temperature", 1.0);
  rules.sums_alignments = value_of<std::string>(options, "merge", "sum") == "sum";
  rules.ends_text = value_of(options, "lm_end", false);
  return rules;
}

}  // namespace rtfx
