#include "harness/run/outcome.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace rtfx {

std::vector<std::string> above_fp32(const std::vector<CaseSummary>& cases, double allowed) {
  std::map<std::string, const CaseSummary*> by_name;
  for (const CaseSummary& summary : cases) by_name[summary.case_name()] = &summary;
  std::vector<std::string> above;
  for (const auto& [name, summary] : by_name) {
    const auto base = by_name.find(name_in_fp32(name));
    if (base == by_name.end()) continue;
    if (const std::string text = above_fp32(*summary, *base->second, allowed); !text.empty())
      above.push_back(name + ": " + text);
  }
  return above;
}

std::vector<CaseSummary> cases_of(const std::vector<CaseGroup>& plan, record::Records records) {
  std::set<std::string> planned;
  for (const CaseGroup& group : plan)
    for (const PlannedDecoder& decoder : group.decoders) planned.insert(decoder.case_name);
  std::vector<CaseSummary> cases = summarize_cases(std::move(records));
  std::vector<std::string> others;
  std::erase_if(cases, [&](const CaseSummary& summary) {
    const std::string name = summary.case_name();
    if (planned.contains(name)) return false;
    others.push_back(printable(name));
    return true;
  });
  if (!others.empty()) {
    print_message(
        "rtfx: notice: the journal has {} that this configuration does not have; left out: {}\n",
        counted(static_cast<int64_t>(others.size()), "case"), fmt::join(others, ", "));
  }
  return cases;
}

int outcome(const std::vector<CaseSummary>& cases, const Config& config) {
  bool inexact = false, failed = false;
  for (const CaseSummary& summary : cases) {
    failed = failed || summary.failure;
    const std::string reason = summary.inexact();
    if (reason.empty()) continue;
    inexact = true;
    print_message("rtfx: below the required exactness: {}: {}\n", printable(summary.case_name()),
                  printable(reason));
  }
  for (const std::string& text : above_fp32(cases, config.wer_above_fp32)) {
    inexact = true;
    print_message("rtfx: {}\n", printable(text));
  }
  return inexact ? kCorrectness : failed ? kFailed : kOk;
}

}  // namespace rtfx
