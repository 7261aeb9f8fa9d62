// How much a metric changed from one result of a case to another: what compare prints and pages
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
  Interval change;  // to / from or to - from, as metric->change says; without an interval its ends
                    // are infinite
  std::optional<int64_t> utterances = {};  // those of the change, where either side holds others
};

/// The change of each metric that both x (a case of a) and y (of b) have, in the order of
/// metrics(), over the rounds that count (CaseSummary::counted_rounds()). Ratios have a 95 %
/// interval. For cases of one run (`paired`) it is that of ratio_within_run(); otherwise it
/// includes the drift between runs (runs_ratio()). Only one difference has an interval: that of the
/// WER, by a paired bootstrap over utterances, where both hold hypotheses. Word errors that
/// different scorers counted (scorer_of()) are left out.
std::vector<MetricChange> metric_changes(const ResultSet& a, const CaseResult& x,
                                         const ResultSet& b, const CaseResult& y, bool paired);

struct WerDifference {
  Interval change;
  std::optional<int64_t> utterances;  // as MetricChange::utterances
};

/// WER of y (a case of b) minus that of x (of a) by paired bootstrap over the utterances that both
/// hold and that have a reference in y, normalised as in y. None where the hypotheses of either are
/// not there, and without a word in these references.
std::optional<WerDifference> wer_difference(const ResultSet& a, const CaseResult& x,
                                            const ResultSet& b, const CaseResult& y);

/// The comparison of two runs:
///   {"a", "b" (journals), "provenance": [{"key", "from", "to"}],
///    "cases": [{"case", "rounds_a", "rounds_b" ({"counted", "of"}), "marks_a", "marks_b",
///               "failure" (text or null),
///               "changes": {metric: {"from", "to", "kind" ("ratio" or "difference"),
///                                    "change": {"estimate", "low", "high"},
///                                    "utterances" (of both, where the change is over these
///                                    alone, else null)}}}],
///    "only_a", "only_b": case names, "tuned_a", "tuned_b": sentences of tuned_sentences(),
///    "noise_floors": {group: {metric: share}} of the A/A controls of both}
/// Throws UserError where print_comparison() does.
nlohmann::json comparison_json(const ResultSet& a, const ResultSet& b);

/// The decoders of one run:
///   {"run" (journal),
///    "cases": [{"case", "baseline" (the decoder that it is compared with), "control" (whether it
///               is an A/A control), "rounds", "marks", "changes" (these as above)}],
///    "dtypes": [{"case", "marks", "changes"}] of cases_beside_fp32(),
///    "failed": [{"case", "failure" (text)}],
///    "tuned": sentences, "noise_floors"}
nlohmann::json speed_ups_json(const ResultSet& results);

/// Cases of `results` beside those of the decoder that they are compared with.
struct ComparedCase {
  const CaseResult *baseline, *result;
};
std::vector<ComparedCase> compared_cases(const ResultSet& results);

/// Cases in another dtype beside the same case in fp32, as far as there is one.
std::vector<ComparedCase> cases_beside_fp32(const ResultSet& results);

/// Throws UserError where either has profiled records or no case, or no case is in both.
void require_common_cases(const ResultSet& a, const ResultSet& b);

// Differences between the environments and configurations of two runs.

struct ProvenanceChange {
  std::string key;          // JSON pointer within the provenance record
  nlohmann::json from, to;  // null where the record has no such key
};

/// Sorted by key. Leaves out what differs between any two runs: time, id, name, question, output,
/// the seconds that reading took.
std::vector<ProvenanceChange> provenance_changes(const record::Provenance& from,
                                                 const record::Provenance& to);

/// One line per change, or one that says that there is none, to stdout.
void print_provenance_changes(const std::vector<ProvenanceChange>& changes);

/// The rounds that count in each case that both runs hold, to stdout; one line where all count.
void print_counted_rounds(const ResultSet& a, const ResultSet& b);

}  // namespace rtfx
