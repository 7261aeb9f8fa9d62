#include "harness/report/gate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/report/escape.h"
#include "harness/results/changes.h"
#include "harness/results/compare.h"
#include "harness/results/conclusion.h"
#include "harness/results/metrics.h"
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

/// Returns the case of the decoder that `result` is compared with; null if there is none.
const CaseResult* baseline_of(const ResultSet& run, const CaseResult& result) {
  const record::Exactness* exactness = result.summary.last_exactness();
  const std::string id = exactness == nullptr ? "" : exactness->baseline;
  for (const CaseResult& other : run.cases) {
    if (other.decoder() == id && other.group() == result.group()) return &other;
  }
  return nullptr;
}

/// Adds "texts" and "utterances" from the hypotheses of both; false if either has none.
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
  const record::FirstDifference& first = *result.summary.first_difference;
  const record::Exactness* exactness = result.summary.last_exactness();
  json entry = {{"case", result.name()},
                {"baseline", exactness == nullptr ? json() : json(exactness->baseline)},
                {"grade", result.summary.grade},
                {"first", record::write(first)},
                {"texts", json()},
                {"utterances", json::array()}};
  const Normalizer& normalizer =
      find_normalizer(result.summary.last_run()->wer.normalizer, result.name());
  const CaseResult* baseline = baseline_of(run, result);
  if (baseline == nullptr || !add_texts(entry, run, *baseline, result, normalizer, most)) {
    entry["utterances"].push_back({{"id", first.utterance},
                                   {"reference", json()},
                                   {"words", aligned(normalizer.words(first.baseline_words),
                                                     normalizer.words(first.words))}});
  }
  return entry;
}

}  // namespace

json differences(const ResultSet& run, size_t most_utterances) {
  json list = json::array();
  for (const CaseResult& result : run.cases) {
    if (result.summary.last_run() != nullptr && result.summary.first_difference)
      list.push_back(difference(run, result, most_utterances));
  }
  return list;
}

json changes_since(const ResultSet& baseline, const ResultSet& run) {
  json facts = {{"journal", baseline.journal.string()},
                {"started", to_json(baseline.provenance.started)},
                {"revision", to_json(baseline.provenance.rtfx.value_or(record::Build()).revision)},
                {"changes", json::array()},
                {"cases", json::array()},
                {"failed", json::array()},
                {"only_before", json::array()},
                {"only_now", json::array()},
                {"mark_meanings", json::object()},
                {"wrong", conclude(all_of(baseline)).wrong},
                {"won", conclude(baseline, run, "the run before", "this run")}};
  for (const auto& [mark, meaning] : meanings_of(baseline)) facts["mark_meanings"][mark] = meaning;
  for (const ProvenanceChange& change : provenance_changes(baseline.provenance, run.provenance))
    facts["changes"].push_back(
        {{"key", change.key.substr(1)}, {"from", change.from}, {"to", change.to}});
  for (const CaseResult& now : run.cases) {
    const CaseResult* before = baseline.find(now.name());
    if (before == nullptr || before->rounds().empty() || now.rounds().empty()) {
      facts[before == nullptr ? "only_now" : "failed"].push_back(now.name());
      continue;
    }
    json entry = {{"case", now.name()},
                  {"marks_before", before->summary.marks()},
                  {"marks_now", now.summary.marks()},
                  {"rounds_before", before->summary.counted_rounds().text()},
                  {"rounds_now", now.summary.counted_rounds().text()}};
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

namespace {

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

/// Returns the element of a test case that says how it ended; empty for a passed case.
const char* junit_outcome(Verdict verdict, bool allow_inconclusive) {
  switch (verdict) {
    case Verdict::pass:
      return "";
    case Verdict::regressed:
    case Verdict::correctness:
      return "failure";
    case Verdict::inconclusive:
      return allow_inconclusive ? "skipped" : "error";
    case Verdict::invalid:
      return "error";
  }
  return "";
}

std::string markdown_rows(const std::vector<GateRow>& rows, bool passed) {
  std::string text;
  for (const GateRow& row : rows) {
    if ((row.verdict == Verdict::pass) != passed) continue;
    text += fmt::format("| {} | {} | {} | {} | {} |\n", to_string(row.verdict),
                        markdown_text(row.case_name), markdown_text(row.what),
                        markdown_text(figures_of(row)), markdown_text(row.full_reason()));
  }
  const char* head = "| verdict | case | what | figures | why |\n|---|---|---|---|---|\n";
  return text.empty() ? "" : head + text;
}

}  // namespace

json gate_json(const std::vector<GateRow>& rows) {
  json list = json::array();
  for (const GateRow& row : rows) {
    list.push_back({{"case", row.case_name},
                    {"what", row.what},
                    {"verdict", to_string(row.verdict)},
                    {"reason", row.reason},
                    {"baseline_run", row.baseline_run.empty() ? json() : json(row.baseline_run)},
                    {"baseline", or_null(row.baseline)},
                    {"current", or_null(row.current)},
                    {"change", row.change ? to_json(*row.change) : json()},
                    {"rounds", row.rounds},
                    {"tolerance", or_null(row.tolerance)},
                    {"noise_floor", or_null(row.floor)}});
  }
  return {{"verdict", to_string(worst(rows))}, {"rows", list}};
}

std::string gate_junit(const std::vector<GateRow>& rows, bool allow_inconclusive) {
  const auto count = [&](std::string_view outcome) {
    return std::ranges::count_if(rows, [&](const GateRow& row) {
      return junit_outcome(row.verdict, allow_inconclusive) == outcome;
    });
  };
  const std::string totals = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", rows.size(),
                                         count("failure"), count("error"));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n"
      "<testsuite name=\"rtfx gate\" {0} skipped=\"{1}\">\n",
      totals, count("skipped"));
  std::map<std::pair<std::string, std::string>, int> of_name;  // rows of each case and name
  for (const GateRow& row : rows) {
    const std::string outcome = junit_outcome(row.verdict, allow_inconclusive);
    const std::string message =
        row.reason.empty() ? figures_of(row) : fmt::format("{}  {}", row.reason, figures_of(row));
    // Some readers keep one test of each name.
    std::string name =
        row.baseline_run.empty() ? row.what : fmt::format("{} ({})", row.what, row.baseline_run);
    const int number = ++of_name[{row.case_name, name}];
    if (number > 1) name += fmt::format(" {}", number);
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\">", xml_text(row.case_name),
                        xml_text(name));
    if (outcome == "skipped") {
      text +=
          fmt::format("<skipped message=\"{}: {}\"/>", to_string(row.verdict), xml_text(message));
    } else if (!outcome.empty()) {
      text += fmt::format("<{0} type=\"{1}\" message=\"{2}\">{2}</{0}>", outcome,
                          to_string(row.verdict), xml_text(message));
    } else if (!message.empty()) {
      text += fmt::format("<system-out>{}</system-out>", xml_text(message));
    }
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n</testsuites>\n";
}

std::string gate_markdown(const std::vector<GateRow>& rows) {
  std::string text = fmt::format("## rtfx gate: {}\n\n", to_string(worst(rows)));
  if (const std::string worse = markdown_rows(rows, /*passed=*/false); !worse.empty())
    text += worse + "\n";
  const std::string passed = markdown_rows(rows, /*passed=*/true);
  std::string sentences;
  for (const std::string& sentence : conclude(rows)) sentences += markdown_text(sentence) + "\n\n";
  if (passed.empty()) return text + sentences;
  const auto count = std::ranges::count(rows, Verdict::pass, &GateRow::verdict);
  return text + sentences +
         fmt::format("<details><summary>{} passed</summary>\n\n{}\n</details>\n", count, passed);
}

}  // namespace rtfx
