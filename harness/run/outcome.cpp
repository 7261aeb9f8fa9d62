#include "harness/run/outcome.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "harness/results/summaries.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx {

using nlohmann::json;

std::vector<std::string> below_required(const std::vector<json>& records,
                                        const std::map<std::string, std::string>& required) {
  std::vector<std::string> below;
  for (const CaseSummary& summary : summarize_cases(records)) {
    const Grade least =
        grade_of(required.at(decoder_dtype(summary.last["dtype"].get<std::string>())));
    if (summary.failure || least == Grade::different) continue;
    // A failed replay is an error of any decoder, the baseline and approximate ones included.
    const std::string beyond = beyond_rounding(summary);
    const bool graded = !summary.grade.empty() && summary.grade != "baseline" &&
                        summary.last["decoder"]["exactness"] == "exact";
    if (!beyond.empty()) {
      below.push_back(fmt::format("{}: {}", summary.case_name(), beyond));
    } else if (graded && grade_of(summary.grade) > least) {
      below.push_back(summary.case_name());
    }
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
