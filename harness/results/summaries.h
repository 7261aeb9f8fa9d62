// From run records to one line per case: what tables and reports show.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/statistics.h"

namespace rtfx {

struct CaseSummary {
  nlohmann::json last;          // the case's last run or failure record
  std::vector<double> totals;   // rtfx.total of each round
  std::vector<double> decodes;  // rtfx.decode of each round; empty where decoding took no time
  std::string verdict;          // worst of all rounds; empty without anything to compare to
  nlohmann::json first_difference;
  bool deterministic = true;  // all rounds gave the same hypotheses
  std::optional<std::string> failure;

  std::string case_name() const { return last.at("case"); }
  bool noisy(double cv_max) const;
};

/// By case in the order of first appearance. Of several results of a case under different keys only
/// the newest counts; a failure counts unless a later run succeeded. Throws UserError for records
/// of a profile.
std::vector<CaseSummary> summarize_cases(const std::vector<nlohmann::json>& records);

/// Record of kind "summary".
nlohmann::json summary_record(const CaseSummary& summary, double cv_max);

}  // namespace rtfx
