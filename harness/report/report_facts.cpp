#include "harness/report/report_facts.h"

#include <algorithm>
#include <map>

#include "harness/results/changes.h"
#include "harness/results/provenance_diff.h"
#include "harness/scoring/normalize.h"
#include "harness/scoring/wer.h"

namespace rtfx {
namespace {

using nlohmann::json;

json aligned(const std::vector<std::string>& baseline, const std::vector<std::string>& words) {
  const auto text = [](const std::optional<std::string>& word) {
    return word ? json(*word) : json();
  };
  json pairs = json::array();
  for (const AlignedWords& pair : align_words(baseline, words))
    pairs.push_back({text(pair.reference), text(pair.hypothesis)});
  return pairs;
}

/// The case of the decoder that `result` is compared with; null where there is none.
const CaseResult* baseline_of(const ResultSet& run, const CaseResult& result) {
  const std::string id = result.summary.last.value("/exactness/baseline"_json_pointer, "");
  for (const CaseResult& other : run.cases) {
    if (other.decoder() == id && other.group() == result.group()) return &other;
  }
  return nullptr;
}

/// Adds "texts" and "utterances" from the hypotheses of both; false where one has none.
bool add_texts(json& entry, const ResultSet& run, const CaseResult& baseline,
               const CaseResult& result, const Normalizer& normalizer, size_t most) {
  const auto theirs = read_hypotheses(run, baseline), ours = read_hypotheses(run, result);
  if (!theirs || !ours) return false;
  std::map<std::string, std::string> baseline_texts;
  for (const UtteranceText& text : *theirs) baseline_texts[text.id] = text.text;
  int64_t texts = 0;
  for (const UtteranceText& text : *ours) {
    const auto found = baseline_texts.find(text.id);
    if (found == baseline_texts.end()) continue;
    const auto before = normalizer.words(found->second), now = normalizer.words(text.text);
    if (before == now || ++texts > static_cast<int64_t>(most)) continue;
    entry["utterances"].push_back({{"id", text.id},
                                   {"reference", text.reference ? json(*text.reference) : json()},
                                   {"words", aligned(before, now)}});
  }
  entry["texts"] = texts;
  return true;
}

json difference(const ResultSet& run, const CaseResult& result, size_t most) {
  const json& last = result.summary.last;
  const json& first = result.summary.first_difference;
  json entry = {{"case", result.name()},
                {"baseline", last["exactness"]["baseline"]},
                {"grade", result.summary.grade},
                {"first", first},
                {"texts", json()},
                {"utterances", json::array()}};
  const Normalizer& normalizer =
      find_normalizer(last.at("wer").at("normalizer").get<std::string>(), result.name());
  const CaseResult* baseline = baseline_of(run, result);
  if (baseline == nullptr || !add_texts(entry, run, *baseline, result, normalizer, most)) {
    entry["utterances"].push_back(
        {{"id", first.at("utterance")},
         {"reference", json()},
         {"words", aligned(normalizer.words(first.at("baseline_words").get<std::string>()),
                           normalizer.words(first.at("words").get<std::string>()))}});
  }
  return entry;
}

}  // namespace

json differences(const ResultSet& run, size_t most_utterances) {
  json list = json::array();
  for (const CaseResult& result : run.cases) {
    if (!result.rounds.empty() && result.summary.first_difference.is_object())
      list.push_back(difference(run, result, most_utterances));
  }
  return list;
}

json speed_ups(const ResultSet& run) {
  const Metric& metric = find_metric("rtfx.decode", "");
  json list = json::array();
  for (const CaseResult& result : run.cases) {
    if (result.rounds.empty() || !result.summary.last.value("exactness", json()).is_object())
      continue;
    const CaseResult* baseline = baseline_of(run, result);
    if (baseline == nullptr || baseline == &result) continue;
    const auto theirs = metric_values(metric, baseline->rounds);
    const auto ours = metric_values(metric, result.rounds);
    if (theirs.empty() || ours.empty()) continue;
    json marks = result.summary.marks();
    for (const std::string& mark : baseline->summary.marks())
      if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
    const Interval ratio =
        ours.size() == theirs.size() ? paired_ratio(theirs, ours) : unpaired_ratio(theirs, ours);
    list.push_back({{"case", result.name()},
                    {"baseline", baseline->decoder()},
                    {"ratio", to_json(ratio)},
                    {"marks", marks}});
  }
  return list;
}

json changes_since(const ResultSet& baseline, const ResultSet& run) {
  json facts = {{"journal", baseline.journal.string()},
                {"started", baseline.provenance.value("started", json())},
                {"revision", baseline.provenance.value("/rtfx/revision"_json_pointer, json())},
                {"changes", json::array()},
                {"cases", json::array()},
                {"failed", json::array()},
                {"only_before", json::array()},
                {"only_now", json::array()}};
  for (const ProvenanceChange& change : provenance_changes(baseline.provenance, run.provenance))
    facts["changes"].push_back(
        {{"key", change.key.substr(1)}, {"from", change.from}, {"to", change.to}});
  for (const CaseResult& now : run.cases) {
    const CaseResult* before = baseline.find(now.name());
    if (before == nullptr || before->rounds.empty() || now.rounds.empty()) {
      facts[before == nullptr ? "only_now" : "failed"].push_back(now.name());
      continue;
    }
    json entry = {{"case", now.name()}};
    for (const char* key : {"rtfx.total", "rtfx.decode", "wer"}) entry[key] = nullptr;
    for (const MetricChange& c : metric_changes(baseline, *before, run, now, /*paired=*/false)) {
      if (entry.contains(c.metric->key))
        entry[c.metric->key] = {{"before", c.from}, {"now", c.to}, {"change", to_json(c.change)}};
    }
    facts["cases"].push_back(std::move(entry));
  }
  for (const CaseResult& before : baseline.cases) {
    if (run.find(before.name()) == nullptr) facts["only_before"].push_back(before.name());
  }
  return facts;
}

}  // namespace rtfx
