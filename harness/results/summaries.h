// From records to one summary per case: every mean, grade and flag that a table, a page, a figure
// or an export shows is made here.
//
// The rounds under a case's newest result key count, all of them: those before a failure too, once
// a later run of the same key has succeeded, since they measured the same thing. Rounds under
// another key are of another build, model or setting and do not count. While a failure is the last
// word, the case has no rounds and no grade.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/statistics.h"

namespace rtfx {

struct CaseSummary {
  nlohmann::json last;                 // the case's last record of kind run, stream or failure
  std::vector<nlohmann::json> rounds;  // by number
  std::string grade;                   // worst of all rounds; empty without anything to compare to
  nlohmann::json first_difference;     // of the first round with that grade
  bool deterministic = true;           // all rounds gave the same hypotheses
  std::optional<std::string> failure;  // stage and message

  std::string case_name() const { return last.at("case"); }
  /// A metric of each round that has it, such as "rtfx.total".
  std::vector<double> values(const std::string& metric) const;
  /// Whether rtfx.total varies by more than the share `cv_max` (sd / mean).
  bool noisy(double cv_max) const;
};

/// By case in the order of first appearance, without those of `rtfx stream`. Throws UserError for
/// records of a profile.
std::vector<CaseSummary> summarize_cases(const std::vector<nlohmann::json>& records);

/// Record of kind "summary".
nlohmann::json summary_record(const CaseSummary& summary, double cv_max);

/// What `rtfx summary` prints and the scripts in plots/ read:
///   {"provenances": [...], "cases": [...], "streams": [...]}
/// A case is {"name", "last", "rounds", "failure" (its record), "grade", "first_difference",
/// "worst_round" (the index of the first round with the grade), "deterministic", "noisy",
/// "metrics": {name: {"mean", "sd"}}, "regions": {name: mean seconds on the host}}. Noisy is a case
/// by the cv_max of the last provenance. Throws UserError for records of a profile.
nlohmann::json summaries_json(const std::vector<nlohmann::json>& records);

}  // namespace rtfx
