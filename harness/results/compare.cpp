#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/changes.h"
#include "harness/results/conclusion.h"
#include "harness/results/tuned.h"

namespace rtfx {
namespace {

using nlohmann::json;

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

/// The headings of the two columns of figures, and the width that the figures need.
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

std::string change_text(const MetricChange& c) {
  if (c.metric->change == Metric::Change::ratio) return ratio(c.change);
  std::string text = is_share(*c.metric)
                         ? fmt::format("{:+.2f} points", 100 * c.change.estimate)
                         : fmt::format("{:+.2f} {}", c.change.estimate, c.metric->unit);
  if (std::isfinite(c.change.high)) text = points(c.change);
  if (c.utterances)
    text += fmt::format(", over {} that both have", counted(*c.utterances, "utterance"));
  return text;
}

void print_changes(const Sides& sides, const std::vector<MetricChange>& changes) {
  for (const MetricChange& c : changes)
    sides.print(c.metric->key, figure(*c.metric, c.from), figure(*c.metric, c.to), change_text(c));
}

/// Prints the noise floors of a run. Each line begins with `side`, such as "A: ".
void print_noise_floors(const ResultSet& results, const char* side) {
  for (const CaseResult& c : results.cases) {
    if (c.control_of().empty()) continue;
    std::string floors;
    for (const Metric& metric : metrics()) {
      if (metric.change != Metric::Change::ratio) continue;
      const auto floor = measured_noise_floor(results, c.group(), metric);
      if (floor) floors += fmt::format(" {} {:.2f} %", metric.key, 100 * *floor);
    }
    fmt::print(
        "{}Noise floor of {} (A/A control):{}\n", side, printable(c.group()),
        floors.empty() ? " unknown, it needs two rounds in the mode of its decoder" : floors);
  }
}

/// Says which weights were tuned. Each line begins with `side`, such as "A: ".
void print_tuned(const ResultSet& results, const char* side) {
  for (const std::string& sentence : tuned_sentences(results))
    fmt::print("{}{}\n", side, printable(sentence));
}

/// Returns the sentences about wrong results of both runs. Such cases are left out of the mean
/// speeds.
std::vector<std::string> wrong_of_both(const ResultSet& a, const ResultSet& b) {
  std::vector<std::string> sentences;
  for (const auto& [side, results] : {std::pair{"A", &a}, {"B", &b}}) {
    for (const std::string& wrong : conclude(all_of(*results)).wrong)
      sentences.push_back(fmt::format("{}: {}", side, wrong));
  }
  return sentences;
}

/// Returns, for example, "model/dataset/decoder/b16/fp32  NOISY".
std::string title(const CaseResult& c) {
  std::string text = printable(c.name());
  for (const std::string& mark : c.summary.marks()) text += "  " + printable(mark);
  return text;
}

}  // namespace

void print_comparison(const ResultSet& a, const ResultSet& b) {
  require_common_cases(a, b);
  print_provenance_changes(provenance_changes(a.provenance, b.provenance));
  for (const ResultSet* set : {&a, &b}) print_earlier_invocations(*set);
  std::string alone;
  for (const CaseResult& y : b.cases) {
    const CaseResult* x = a.find(y.name());
    if (x == nullptr) {
      alone += fmt::format("only in {}: {}\n", printable(b.journal.string()), printable(y.name()));
      continue;
    }
    fmt::print("\n{}\n", title(y));
    for (const std::string& mark : x->summary.marks()) fmt::print("  A: {}\n", printable(mark));
    if (x->summary.failure || y.summary.failure) {
      fmt::print("  failed: {}\n",
                 printable(y.summary.failure.value_or(x->summary.failure.value_or(""))));
      continue;
    }
    fmt::print("  A: {}\n  B: {}\n", x->summary.counted_rounds().text(),
               y.summary.counted_rounds().text());
    if (const int64_t before = x->about().dataset.utterances, now = y.about().dataset.utterances;
        before != now)
      fmt::print("  A: {}, B: {}\n", counted(before, "utterance"), counted(now, "utterance"));
    if (scorer_of(*x) != scorer_of(y)) {
      fmt::print("  A: {}, B: {}: word errors are not compared; `rtfx rescore` counts them again\n",
                 printable(scorer_of(*x)), printable(scorer_of(y)));
    }
    const Sides sides{"A", "B"};
    sides.print_head();
    print_changes(sides, metric_changes(a, *x, b, y, /*paired=*/false));
  }
  for (const CaseResult& x : a.cases) {
    if (b.find(x.name()) == nullptr)
      alone += fmt::format("only in {}: {}\n", printable(a.journal.string()), printable(x.name()));
  }
  fmt::print("\n{}", alone);
  print_tuned(a, "A: ");
  print_tuned(b, "B: ");
  print_noise_floors(a, "A: ");
  print_noise_floors(b, "B: ");
  print_conclusion(wrong_of_both(a, b), conclude(a, b, "A", "B"));
}

void print_speed_ups(const ResultSet& results) {
  const std::vector<ComparedCase> compared = compared_cases(results),
                                  dtypes = cases_beside_fp32(results);
  for (const auto& [base, c] : compared) {
    fmt::print("\n{}{}\n", title(*c), c->control_of().empty() ? "" : "  (A/A control)");
    fmt::print("  {}\n", c->summary.counted_rounds().text());
    const Sides sides{printable(base->decoder()), printable(c->decoder())};
    sides.print_head();
    print_changes(sides, metric_changes(results, *base, results, *c, /*paired=*/true));
  }
  for (const auto& [base, c] : dtypes) {
    fmt::print("\n{}, beside fp32\n", title(*c));
    const Sides sides{base->about().dtype, c->about().dtype};
    sides.print_head();
    print_changes(sides, metric_changes(results, *base, results, *c, /*paired=*/false));
  }
  for (const CaseResult& c : results.cases) {
    if (c.summary.failure)
      fmt::print("\n{}\n  failed: {}\n", title(c), printable(*c.summary.failure));
  }
  fmt::print("\n");
  if (compared.empty() && dtypes.empty())
    fmt::print("No decoder of this run has another one to be compared with.\n");
  print_tuned(results, "");
  print_noise_floors(results, "");
  const Conclusion conclusion = conclude(all_of(results));
  print_conclusion(conclusion.wrong, conclusion.won);
}

std::string figures_of(const GateRow& row) {
  std::string figures;
  if (row.baseline && row.current) {
    const Metric& metric = find_metric(row.what, row.case_name);
    figures = fmt::format("{} -> {}", figure(metric, *row.baseline), figure(metric, *row.current));
  }
  if (row.change) figures += (figures.empty() ? "" : "  ") + ratio(*row.change);
  if (!row.rounds.empty()) figures += "  " + row.rounds;
  if (row.tolerance) {
    const bool is_ratio = find_metric(row.what, row.case_name).change == Metric::Change::ratio;
    figures += is_ratio ? "  tolerance " + percent_text(*row.tolerance)
                        : "  tolerance " + number_text(100 * *row.tolerance) + " percentage points";
  }
  if (row.floor) figures += ", noise " + percent_text(*row.floor);
  return figures;
}

void print_gate(const std::vector<GateRow>& rows) {
  std::string current;
  for (const GateRow& row : rows) {
    if (row.case_name != current) fmt::print("\n{}\n", printable(current = row.case_name));
    const std::string figures = figures_of(row), reason = row.full_reason();
    constexpr size_t kIndent = 28;
    const std::string line =
        fmt::format("  {:<12} {:<12} {}{}{}", to_string(row.verdict), row.what, figures,
                    figures.empty() || reason.empty() ? "" : "  ", printable(reason));
    fmt::print("{}\n", wrapped(line, terminal_columns().value_or(line.size()), kIndent));
  }
}

}  // namespace rtfx
