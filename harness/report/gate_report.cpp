#include "harness/report/gate_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/escape.h"
#include "harness/results/compare.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

using nlohmann::json;

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

/// The element inside a test case that says how it ended; empty for what passed.
const char* junit_outcome(Verdict verdict, bool allow_inconclusive) {
  switch (verdict) {
    case Verdict::pass:
      return "";
    case Verdict::regressed:
    case Verdict::correctness:
      return "failure";
    case Verdict::inconclusive:
      return allow_inconclusive ? "skipped" : "error";
    case Verdict::invalid:
      return "error";
  }
  return "";
}

std::string markdown_rows(const std::vector<GateRow>& rows, bool passed) {
  std::string text;
  for (const GateRow& row : rows) {
    if ((row.verdict == Verdict::pass) != passed) continue;
    text += fmt::format("| {} | {} | {} | {} | {} |\n", to_string(row.verdict),
                        markdown_text(row.case_name), markdown_text(row.what),
                        markdown_text(figures_of(row)), markdown_text(row.reason));
  }
  const char* head = "| verdict | case | what | figures | why |\n|---|---|---|---|---|\n";
  return text.empty() ? "" : head + text;
}

}  // namespace

json gate_json(const std::vector<GateRow>& rows) {
  json list = json::array();
  for (const GateRow& row : rows) {
    list.push_back({{"case", row.case_name},
                    {"what", row.what},
                    {"verdict", to_string(row.verdict)},
                    {"reason", row.reason},
                    {"baseline", or_null(row.baseline)},
                    {"current", or_null(row.current)},
                    {"change", row.change ? to_json(*row.change) : json()},
                    {"tolerance", or_null(row.tolerance)},
                    {"noise_floor", or_null(row.floor)}});
  }
  return {{"verdict", to_string(worst(rows))}, {"rows", list}};
}

std::string gate_junit(const std::vector<GateRow>& rows, bool allow_inconclusive) {
  const auto count = [&](std::string_view outcome) {
    return std::ranges::count_if(rows, [&](const GateRow& row) {
      return junit_outcome(row.verdict, allow_inconclusive) == outcome;
    });
  };
  const std::string totals = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", rows.size(),
                                         count("failure"), count("error"));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n"
      "<testsuite name=\"rtfx gate\" {0} skipped=\"{1}\">\n",
      totals, count("skipped"));
  for (const GateRow& row : rows) {
    const std::string outcome = junit_outcome(row.verdict, allow_inconclusive);
    const std::string message =
        row.reason.empty() ? figures_of(row) : fmt::format("{}  {}", row.reason, figures_of(row));
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\">", xml_text(row.case_name),
                        xml_text(row.what));
    if (outcome == "skipped") {
      text +=
          fmt::format("<skipped message=\"{}: {}\"/>", to_string(row.verdict), xml_text(message));
    } else if (!outcome.empty()) {
      text += fmt::format("<{0} type=\"{1}\" message=\"{2}\">{2}</{0}>", outcome,
                          to_string(row.verdict), xml_text(message));
    } else if (!message.empty()) {
      text += fmt::format("<system-out>{}</system-out>", xml_text(message));
    }
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n</testsuites>\n";
}

std::string gate_markdown(const std::vector<GateRow>& rows) {
  std::string text = fmt::format("## rtfx gate: {}\n\n", to_string(worst(rows)));
  if (const std::string worse = markdown_rows(rows, /*passed=*/false); !worse.empty())
    text += worse + "\n";
  const std::string passed = markdown_rows(rows, /*passed=*/true);
  if (passed.empty()) return text;
  const auto count = std::ranges::count(rows, Verdict::pass, &GateRow::verdict);
  return text +
         fmt::format("<details><summary>{} passed</summary>\n\n{}\n</details>\n", count, passed);
}

}  // namespace rtfx
