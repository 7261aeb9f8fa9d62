#include "harness/results/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/comparability.h"
#include "harness/results/tuned.h"
#include "harness/scoring/normalize.h"

namespace rtfx {

namespace {

using nlohmann::json;

constexpr uint64_t kBootstrapSeed = 1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns whether the scorer's rules for words change it.
bool counts_words(const Metric& metric) {
  const std::string_view key = metric.key;
  return key == "cer" || key.starts_with("wer") || key.starts_with("boosted");
}

json changes_json(const std::vector<MetricChange>& changes) {
  json list = json::object();
  for (const MetricChange& c : changes) {
    list[c.metric->key] = {
        {"from", c.from},
        {"to", c.to},
        {"kind", c.metric->change == Metric::Change::ratio ? "ratio" : "difference"},
        {"change", to_json(c.change)},
        {"utterances", c.utterances ? json(*c.utterances) : json()}};
  }
  return list;
}

json rounds_json(const CaseResult& result) {
  const CountedRounds counted = result.summary.counted_rounds();
  return {{"counted", counted.rounds.size()}, {"of", counted.of}};
}

json noise_floors(const std::vector<const ResultSet*>& sets) {
  json floors = json::object();
  for (const ResultSet* set : sets) {
    for (const CaseResult& c : set->cases) {
      if (c.control_of().empty()) continue;
      for (const Metric& metric : metrics()) {
        if (metric.change != Metric::Change::ratio) continue;
        const auto floor = measured_noise_floor(*set, c.group(), metric);
        if (!floor) continue;
        json& known = floors[c.group()][metric.key];
        known = std::max(known.is_null() ? 0.0 : known.get<double>(), *floor);
      }
    }
  }
  return floors;
}

}  // namespace

std::vector<MetricChange> metric_changes(const ResultSet& a, const CaseResult& x,
                                         const ResultSet& b, const CaseResult& y, bool paired) {
  std::vector<MetricChange> changes;
  const bool same_words = scorer_of(x) == scorer_of(y);
  for (const Metric& metric : metrics()) {
    if (!same_words && counts_words(metric)) continue;
    const auto from = counted_values(metric, x.summary), to = counted_values(metric, y.summary);
    if (from.empty() || to.empty()) continue;
    const double before = spread_of(from).mean, now = spread_of(to).mean;
    MetricChange& change = changes.emplace_back(
        MetricChange{&metric, before, now, {now - before, -kInfinity, kInfinity}});
    if (metric.change == Metric::Change::ratio) {
      change.change =
          paired ? *ratio_within_run(metric, x.summary, y.summary) : runs_ratio({from}, to);
    } else if (std::string_view(metric.key) == "wer") {
      if (const auto difference = wer_difference(a, x, b, y)) {
        change.change = difference->change;
        change.utterances = difference->utterances;
      }
    }
  }
  return changes;
}

std::optional<WerDifference> wer_difference(const ResultSet& a, const CaseResult& x,
                                            const ResultSet& b, const CaseResult& y) {
  const auto old = read_hypotheses(a, x), now = read_hypotheses(b, y);
  if (!old || !now || x.rounds().empty() || y.rounds().empty()) return std::nullopt;
  const auto* last = std::get_if<record::Run>(&y.rounds().back());
  if (last == nullptr) return std::nullopt;
  const Normalizer& normalizer = find_normalizer(last->wer.normalizer, y.name());
  std::map<std::string, const UtteranceText*> by_id;
  for (const UtteranceText& text : *old) by_id[text.id] = &text;
  std::vector<EditCounts> left, right;
  int64_t words = 0;
  size_t both = 0;
  for (const UtteranceText& text : *now) {
    const auto found = by_id.find(text.id);
    if (found == by_id.end()) continue;
    ++both;
    if (!text.reference) continue;
    const auto reference = normalizer.words(*text.reference);
    left.push_back(count_edits(reference, normalizer.words(found->second->text)));
    right.push_back(count_edits(reference, normalizer.words(text.text)));
    words += static_cast<int64_t>(reference.size());
  }
  if (words == 0) return std::nullopt;
  WerDifference difference{bootstrap_wer_difference(left, right, kBootstrapSeed), std::nullopt};
  if (both < old->size() || both < now->size()) difference.utterances = std::ssize(left);
  return difference;
}

std::vector<ComparedCase> compared_cases(const ResultSet& results) {
  results.require_cases();
  std::vector<ComparedCase> compared;
  for (const CaseResult& c : results.cases) {
    const auto* last = c.rounds().empty() ? nullptr : std::get_if<record::Run>(&c.rounds().back());
    if (last == nullptr || !last->exactness) continue;
    const std::string& baseline = last->exactness->baseline;
    for (const CaseResult& base : results.cases) {
      if (base.group() != c.group() || base.decoder() != baseline || &base == &c) continue;
      if (!base.rounds().empty()) compared.push_back({&base, &c});
    }
  }
  return compared;
}

std::vector<ComparedCase> cases_beside_fp32(const ResultSet& results) {
  std::vector<ComparedCase> compared;
  for (const CaseResult& c : results.cases) {
    const CaseResult* base = results.find(name_in_fp32(c.name()));
    if (base == nullptr || base == &c || c.summary.failure || base->summary.failure) continue;
    if (c.control_of().empty()) compared.push_back({base, &c});
  }
  return compared;
}

void require_common_cases(const ResultSet& a, const ResultSet& b) {
  a.require_cases();
  b.require_cases();
  const auto in_a = [&](const CaseResult& y) { return a.find(y.name()) != nullptr; };
  if (std::ranges::any_of(b.cases, in_a)) return;
  throw UserError(b.journal.string(), "has no case in common with " + a.journal.string(),
                  "cases are compared by their name: model/dataset/decoder/batch/type");
}

json comparison_json(const ResultSet& a, const ResultSet& b) {
  require_common_cases(a, b);
  json document = {{"a", a.journal.string()},
                   {"b", b.journal.string()},
                   {"provenance", json::array()},
                   {"cases", json::array()},
                   {"only_a", json::array()},
                   {"only_b", json::array()},
                   {"tuned_a", tuned_sentences(a)},
                   {"tuned_b", tuned_sentences(b)},
                   {"noise_floors", noise_floors({&a, &b})}};
  for (const ProvenanceChange& change : provenance_changes(a.provenance, b.provenance))
    document["provenance"].push_back(
        {{"key", change.key.substr(1)}, {"from", change.from}, {"to", change.to}});
  for (const CaseResult& y : b.cases) {
    const CaseResult* x = a.find(y.name());
    if (x == nullptr) {
      document["only_b"].push_back(y.name());
      continue;
    }
    const auto failure = y.summary.failure ? y.summary.failure : x->summary.failure;
    document["cases"].push_back(
        {{"case", y.name()},
         {"rounds_a", rounds_json(*x)},
         {"rounds_b", rounds_json(y)},
         {"marks_a", x->summary.marks()},
         {"marks_b", y.summary.marks()},
         {"failure", failure ? json(*failure) : json()},
         {"changes", changes_json(metric_changes(a, *x, b, y, /*paired=*/false))}});
  }
  for (const CaseResult& x : a.cases) {
    if (b.find(x.name()) == nullptr) document["only_a"].push_back(x.name());
  }
  return document;
}

json speed_ups_json(const ResultSet& results) {
  json cases = json::array();
  for (const auto& [base, c] : compared_cases(results)) {
    cases.push_back(
        {{"case", c->name()},
         {"baseline", base->decoder()},
         {"control", !c->control_of().empty()},
         {"rounds", rounds_json(*c)},
         {"marks", c->summary.marks()},
         {"changes", changes_json(metric_changes(results, *base, results, *c, /*paired=*/true))}});
  }
  json dtypes = json::array();
  for (const auto& [base, c] : cases_beside_fp32(results)) {
    dtypes.push_back(
        {{"case", c->name()},
         {"marks", c->summary.marks()},
         {"changes", changes_json(metric_changes(results, *base, results, *c, /*paired=*/false))}});
  }
  json failed = json::array();
  for (const CaseResult& c : results.cases) {
    if (c.summary.failure) failed.push_back({{"case", c.name()}, {"failure", *c.summary.failure}});
  }
  return {{"run", results.journal.string()},
          {"cases", cases},
          {"dtypes", dtypes},
          {"failed", failed},
          {"tuned", tuned_sentences(results)},
          {"noise_floors", noise_floors({&results})}};
}

namespace {

bool always_differs(const std::string& key) {
  constexpr std::array kKeys = {"/started",  "/provenance_id",   "/name",         "/config/name",
                                "/question", "/config/question", "/config/output"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end() ||
         key.ends_with("/load_seconds");
}

/// Load, clock and calibration are never the same. They matter where another CPU was at work.
bool same(const std::string& key, const json& x, const json& y, double cpus) {
  if (!x.is_number() || !y.is_number()) return x == y;
  if (key == "/cpu/load_average") return !load_averages_differ(x, y, cpus);
  if (key == "/cpu/clock_mhz") return !clocks_differ(x, y);
  if (key == "/cpu/calibration_ms") return !calibrations_differ(x, y);
  return x == y;
}

}  // namespace

std::vector<ProvenanceChange> provenance_changes(const record::Provenance& from,
                                                 const record::Provenance& to) {
  const json a = record::write(from).flatten(), b = record::write(to).flatten();
  std::set<std::string> keys;
  for (const json* side : {&a, &b}) {
    for (const auto& item : side->items()) keys.insert(item.key());
  }
  const double cpus = to.cpu ? static_cast<double>(to.cpu->cores.value_or(0)) : 0;
  std::vector<ProvenanceChange> changes;
  for (const std::string& key : keys) {
    json x = a.value(key, json()), y = b.value(key, json());
    if (!same(key, x, y, cpus) && !always_differs(key))
      changes.push_back({key, std::move(x), std::move(y)});
  }
  return changes;
}

void print_provenance_changes(const std::vector<ProvenanceChange>& changes) {
  if (changes.empty()) fmt::print("The provenance of both is the same.\n");
  for (const ProvenanceChange& change : changes)
    print_wrapped(fmt::format("{}: {} -> {}", printable(change.key.substr(1)),
                              printable(change.from.dump()), printable(change.to.dump())),
                  4);
}

void print_earlier_invocations(const ResultSet& run) {
  std::set<const record::Provenance*> seen;
  for (const CaseResult& c : run.cases) {
    for (const auto& earlier : c.other_provenances) {
      if (!seen.insert(earlier.get()).second) continue;
      const auto changes = provenance_changes(*earlier, c.provenance());
      if (changes.empty()) continue;
      print_wrapped(fmt::format("{}: rounds of an earlier invocation count, too, which differs:",
                                printable(run.journal.string())),
                    4);
      print_provenance_changes(changes);
    }
  }
}

void print_counted_rounds(const ResultSet& a, const ResultSet& b) {
  std::vector<std::string> lines;
  bool all = true;
  for (const CaseResult& y : b.cases) {
    const CaseResult* x = a.find(y.name());
    if (x == nullptr) continue;
    const CountedRounds before = x->summary.counted_rounds(), now = y.summary.counted_rounds();
    all = all && before.rounds.size() == before.of && now.rounds.size() == now.of;
    lines.push_back(fmt::format("{}: {} -> {}", printable(y.name()), before.text(), now.text()));
  }
  if (lines.empty()) return;
  fmt::print("\nRounds that count:{}\n", all ? " all, in both runs" : "");
  if (all) return;
  for (const std::string& line : lines) print_wrapped(line, 4);
}

}  // namespace rtfx
