#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "harness/results/metrics.h"
#include "harness/results/provenance_diff.h"
#include "harness/scoring/normalize.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr uint64_t kSeed = 1;

bool is_share(const Metric& metric) { return *metric.unit == '\0'; }

std::string figure(const Metric& metric, double value) {
  return is_share(metric) ? fmt::format("{:.2f} %", 100 * value)
                          : fmt::format("{:.{}f} {}", value, value < 100 ? 2 : 1, metric.unit);
}

std::string ratio(const Interval& r) {
  return std::isfinite(r.high) ? fmt::format("x {:.3f} [{:.3f}, {:.3f}]", r.estimate, r.low, r.high)
                               : fmt::format("x {:.3f} [one round: no interval]", r.estimate);
}

std::string points(const Interval& d) {
  return fmt::format("{:+.2f} points [{:+.2f}, {:+.2f}]", 100 * d.estimate, 100 * d.low,
                     100 * d.high);
}

/// The heads of the two columns of figures, which are as wide as these need.
struct Sides {
  std::string left, right;

  void print(const std::string& what, const std::string& a, const std::string& b,
             const std::string& change) const {
    constexpr size_t kLeast = 12;
    fmt::print("  {:<20} {:>{}} {:>{}}  {}\n", what, a, std::max(kLeast, left.size()), b,
               std::max(kLeast, right.size()), change);
  }
  void print_head() const { print("", left, right, "change [95 % interval]"); }
};

void print_metric(const Sides& sides, const Metric& metric, const std::vector<double>& a,
                  const std::vector<double>& b, const std::string& change) {
  sides.print(metric.key, figure(metric, summarize(a).mean), figure(metric, summarize(b).mean),
              change);
}

/// `paired`: the rounds of both were measured side by side, in one run.
void print_case(const Sides& sides, const ResultSet& a, const CaseResult& x, const ResultSet& b,
                const CaseResult& y, bool paired) {
  for (const Metric& metric : metrics()) {
    const auto left = metric_values(metric, x.rounds), right = metric_values(metric, y.rounds);
    if (left.empty() || right.empty()) continue;
    if (metric.change == Metric::Change::ratio) {
      const bool pair = paired && left.size() == right.size();
      print_metric(sides, metric, left, right,
                   ratio(pair     ? paired_ratio(left, right)
                         : paired ? unpaired_ratio(left, right)
                                  : runs_ratio({left}, right)));
      continue;
    }
    const double difference = summarize(right).mean - summarize(left).mean;
    std::string change = is_share(metric) ? fmt::format("{:+.2f} points", 100 * difference)
                                          : fmt::format("{:+.2f} {}", difference, metric.unit);
    if (std::string(metric.key) == "wer") {
      if (const auto interval = wer_difference(a, x, b, y)) change = points(*interval);
    }
    print_metric(sides, metric, left, right, change);
  }
}

void print_noise_floors(const ResultSet& results) {
  for (const CaseResult& c : results.cases) {
    if (c.control_of().empty()) continue;
    fmt::print("Noise floor of {} (A/A control):", printable(c.group()));
    for (const Metric& metric : metrics()) {
      if (metric.change != Metric::Change::ratio) continue;
      const auto floor = measured_noise_floor(results, c.group(), metric.key);
      if (floor) fmt::print(" {} {:.2f} %", metric.key, 100 * *floor);
    }
    fmt::print("\n");
  }
}

/// "model/dataset/decoder/b16/fp32  NOISY"
std::string title(const CaseResult& c) {
  std::string text = printable(c.name());
  for (const std::string& mark : c.summary.marks()) text += "  " + mark;
  return text;
}

}  // namespace

std::optional<Interval> wer_difference(const ResultSet& a, const CaseResult& x, const ResultSet& b,
                                       const CaseResult& y) {
  const auto old = read_hypotheses(a, x), now = read_hypotheses(b, y);
  if (!old || !now || x.rounds.empty() || y.rounds.empty()) return std::nullopt;
  const Normalizer& normalizer =
      find_normalizer(y.rounds.back().at("wer").at("normalizer").get<std::string>(), y.name());
  std::map<std::string, const UtteranceText*> by_id;
  for (const UtteranceText& text : *old) by_id[text.id] = &text;
  std::vector<EditCounts> left, right;
  int64_t words = 0;
  for (const UtteranceText& text : *now) {
    const auto found = by_id.find(text.id);
    if (found == by_id.end() || !text.reference) continue;
    const auto reference = normalizer.words(*text.reference);
    left.push_back(count_edits(reference, normalizer.words(found->second->text)));
    right.push_back(count_edits(reference, normalizer.words(text.text)));
    words += static_cast<int64_t>(reference.size());
  }
  if (words == 0) return std::nullopt;
  return bootstrap_wer_difference(left, right, kSeed);
}

void print_comparison(const ResultSet& a, const ResultSet& b) {
  a.require_cases();
  b.require_cases();
  print_provenance_changes(provenance_changes(a.provenance, b.provenance));
  size_t common = 0;
  std::string alone;
  for (const CaseResult& y : b.cases) {
    const CaseResult* x = a.find(y.name());
    if (x == nullptr) {
      alone += fmt::format("only in {}: {}\n", printable(b.journal.string()), printable(y.name()));
      continue;
    }
    ++common;
    fmt::print("\n{}\n", title(y));
    for (const std::string& mark : x->summary.marks()) fmt::print("  A: {}\n", mark);
    if (x->summary.failure || y.summary.failure) {
      fmt::print("  failed: {}\n",
                 printable(y.summary.failure.value_or(x->summary.failure.value_or(""))));
      continue;
    }
    const Sides sides{"A", "B"};
    sides.print_head();
    print_case(sides, a, *x, b, y, /*paired=*/false);
  }
  for (const CaseResult& x : a.cases) {
    if (b.find(x.name()) == nullptr)
      alone += fmt::format("only in {}: {}\n", printable(a.journal.string()), printable(x.name()));
  }
  fmt::print("\n{}", alone);
  print_noise_floors(a);
  print_noise_floors(b);
  if (common == 0) {
    throw UserError(b.journal.string(), "has no case in common with " + a.journal.string(),
                    "cases are compared by their name: model/dataset/decoder/batch/type");
  }
}

void print_speed_ups(const ResultSet& results) {
  results.require_cases();
  for (const CaseResult& c : results.cases) {
    if (c.rounds.empty()) continue;
    const json& exactness = c.rounds.back().at("exactness");
    const std::string baseline =
        exactness.is_object() ? exactness.value("baseline", "") : std::string();
    for (const CaseResult& base : results.cases) {
      if (base.group() != c.group() || base.decoder() != baseline || &base == &c) continue;
      if (base.rounds.empty()) continue;
      fmt::print("\n{}{}\n", title(c), c.control_of().empty() ? "" : "  (A/A control)");
      const Sides sides{printable(base.decoder()), printable(c.decoder())};
      sides.print_head();
      print_case(sides, results, base, results, c, /*paired=*/true);
    }
  }
  fmt::print("\n");
  print_noise_floors(results);
}

void print_gate(const std::vector<GateRow>& rows) {
  std::string current;
  for (const GateRow& row : rows) {
    if (row.case_name != current) fmt::print("\n{}\n", printable(current = row.case_name));
    std::string figures;
    if (row.baseline && row.current) {
      const Metric& metric = find_metric(row.what, row.case_name);
      figures =
          fmt::format("{} -> {}", figure(metric, *row.baseline), figure(metric, *row.current));
    }
    if (row.change) figures += "  " + ratio(*row.change);
    if (row.tolerance) figures += fmt::format("  tolerance {:.2g} %", 100 * *row.tolerance);
    if (row.floor) figures += fmt::format(", noise {:.2g} %", 100 * *row.floor);
    fmt::print("  {:<12} {:<12} {}{}{}\n", to_string(row.verdict), row.what, figures,
               figures.empty() || row.reason.empty() ? "" : "  ", printable(row.reason));
  }
}

}  // namespace rtfx
