// Changes of metrics from one result of a case to another, which `rtfx compare` prints and pages
// show.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/metrics.h"

namespace rtfx {

struct MetricChange {
  const Metric* metric;
  double from, to;  // means over rounds
  /// The ratio `to` / `from` or the difference `to` - `from`, as metric->change says. The ends are
  /// infinite if there is no interval.
  Interval change;
  /// Number of utterances that the change covers, if either side holds others too.
  std::optional<int64_t> utterances = {};
};

/// Returns the change of each metric that both x (a case of a) and y (of b) have, in the order of
/// metrics(). It takes the rounds that count (CaseSummary::counted_rounds()). Ratios have a 95 %
/// interval. For cases of one run (`paired`) it is the interval of ratio_within_run(). Otherwise it
/// includes the drift between runs (runs_ratio()). Of the differences, only that of the WER has an
/// interval: a paired bootstrap over utterances, if both sides hold hypotheses. Word errors that
/// different scorers counted (scorer_of()) are left out.
std::vector<MetricChange> metric_changes(const ResultSet& a, const CaseResult& x,
                                         const ResultSet& b, const CaseResult& y, bool paired);

struct WerDifference {
  Interval change;
  std::optional<int64_t> utterances;  // as MetricChange::utterances
};

/// Returns the WER of y (a case of b) minus the WER of x (a case of a), by paired bootstrap over
/// the utterances that both hold and that have a reference in y. Words are normalised as in y.
/// Returns none if either lacks hypotheses, or if these references have no word.
std::optional<WerDifference> wer_difference(const ResultSet& a, const CaseResult& x,
                                            const ResultSet& b, const CaseResult& y);

/// Compares two runs:
///   {"a", "b" (journals), "provenance": [{"key", "from", "to"}],
///    "cases": [{"case", "rounds_a", "rounds_b" ({"counted", "of"}), "marks_a", "marks_b",
///               "failure" (text or null),
///               "changes": {metric: {"from", "to", "kind" ("ratio" or "difference"),
///                                    "change": {"estimate", "low", "high"},
///                                    "utterances" (MetricChange::utterances, or null)}}}],
///    "only_a", "only_b": case names, "tuned_a", "tuned_b": sentences of tuned_sentences(),
///    "noise_floors": {group: {metric: share}} of the A/A controls of both}
/// Throws UserError as print_comparison() does.
nlohmann::json comparison_json(const ResultSet& a, const ResultSet& b);

/// Compares the decoders of one run:
///   {"run" (journal),
///    "cases": [{"case", "baseline" (the decoder that it is compared with), "control" (true for
///               an A/A control), "rounds", "marks", "changes" (as above)}],
///    "dtypes": [{"case", "marks", "changes"}] of cases_beside_fp32(),
///    "failed": [{"case", "failure" (text)}],
///    "tuned": sentences, "noise_floors"}
nlohmann::json speed_ups_json(const ResultSet& results);

/// Cases of `results` beside those of the decoder that they are compared with.
struct ComparedCase {
  const CaseResult *baseline, *result;
};
std::vector<ComparedCase> compared_cases(const ResultSet& results);

/// Returns the cases in another dtype for which there is the same case in fp32.
std::vector<ComparedCase> cases_beside_fp32(const ResultSet& results);

/// Throws UserError if either has profiled records or no case, or if they have no case in common.
void require_common_cases(const ResultSet& a, const ResultSet& b);

// A difference between the environments and configurations of two runs.

struct ProvenanceChange {
  std::string key;          // JSON pointer within the provenance record
  nlohmann::json from, to;  // null if the record has no such key
};

/// Returns the differences, sorted by key. Leaves out the keys that differ between any two runs:
/// time, id, name, question, output, and the seconds that reading took.
std::vector<ProvenanceChange> provenance_changes(const record::Provenance& from,
                                                 const record::Provenance& to);

/// Prints one line for each change to stdout, or one line that says that there is none.
void print_provenance_changes(const std::vector<ProvenanceChange>& changes);

/// Prints how an earlier invocation of a run, whose rounds count too since `--resume` joined them,
/// differs from the last one. Prints nothing if none does.
void print_earlier_invocations(const ResultSet& run);

/// Prints the rounds that count in each case that both runs hold. Prints one line if all rounds
/// count.
void print_counted_rounds(const ResultSet& a, const ResultSet& b);

}  // namespace rtfx
