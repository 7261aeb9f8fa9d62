#include "harness/run/outcome.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "harness/results/summaries.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

using nlohmann::json;

std::vector<std::string> below_required(const std::vector<json>& records,
                                        const std::map<std::string, std::string>& required) {
  std::vector<std::string> below;
  for (const CaseSummary& summary : summarize_cases(records)) {
    if (summary.failure || summary.grade.empty() || summary.grade == "baseline") continue;
    if (summary.last["decoder"]["exactness"] != "exact") continue;
    const Grade least = grade_of(required.at(summary.last["dtype"]));
    if (grade_of(summary.grade) > least) below.push_back(summary.case_name());
  }
  return below;
}

static std::vector<std::string> failed_cases(const std::vector<json>& records) {
  std::vector<std::string> failed;
  for (const CaseSummary& summary : summarize_cases(records)) {
    if (summary.failure) failed.push_back(summary.case_name());
  }
  return failed;
}

int outcome(const std::vector<json>& records, const Config& config) {
  const auto below = below_required(records, config.required);
  for (const std::string& name : below)
    fmt::print(stderr, "rtfx: below the required exactness: {}\n", printable(name));
  return !below.empty() ? kCorrectness : !failed_cases(records).empty() ? kFailed : kOk;
}

}  // namespace rtfx
