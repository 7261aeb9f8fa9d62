#include "harness/results/table.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "harness/results/summaries.h"
#include "models/synthetic.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr size_t kLeastIdWidth = 30;  // of the column with the decoders' ids; long ones widen it

bool use_colours() { return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::string figure(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const Summary s = summarize(values);
  const int digits = s.mean < 100 ? 1 : 0;
  return fmt::format("{:.{}f} ± {:.{}f}", s.mean, digits, s.sd, digits);
}

/// Pads by characters; "±" is two bytes.
std::string right(const std::string& text, size_t width) {
  const auto characters = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
  return std::string(width > characters ? width - characters : 0, ' ') + text;
}

fmt::text_style grade_style(const std::string& grade) {
  if (grade == "bitwise" || grade == "exact") return fmt::fg(fmt::terminal_color::green);
  if (grade == "tie" || grade == "text") return fmt::fg(fmt::terminal_color::yellow);
  if (grade == "baseline" || grade.empty()) return {};
  return fmt::fg(fmt::terminal_color::red);
}

std::string grade_text(const CaseSummary& c) {
  if (c.failure) return "FAILED";
  if (c.grade.empty()) return "-";
  const bool approximate = c.last["decoder"]["exactness"] == "approximate";
  return c.grade + (approximate ? " ~" : "") + (c.deterministic ? "" : " NONDETERMINISTIC");
}

std::string group_of(const CaseSummary& c) {
  const json& dataset = c.last.at("dataset");
  const bool synthetic = c.last["model"].value("weights", "") == "synthetic";
  return fmt::format("{} on {} ({} utterances, {:.0f} s of audio, {}){}",
                     c.last["model"]["id"].get<std::string>(), dataset["id"].get<std::string>(),
                     dataset["utterances"].get<int64_t>(), dataset["audio_seconds"].get<double>(),
                     c.last["device"].get<std::string>(),
                     synthetic ? fmt::format(": {}", kSyntheticLabel) : "");
}

std::string id_of(const CaseSummary& c) { return c.last["decoder"]["id"]; }

/// What only some decoders have, at the end of the row.
std::string further_figures(const json& run) {
  std::string text;
  const auto add = [&](const char* name, const json::json_pointer& where) {
    const json value = run.value(where, json());
    if (value.is_number()) text += fmt::format("  {} {:.2f}", name, 100 * value.get<double>());
  };
  add("oracle", "/oracle_wer/wer"_json_pointer);
  add("recall", "/boosted/recall"_json_pointer);
  add("precision", "/boosted/precision"_json_pointer);
  return text;
}

void print_row(const CaseSummary& c, size_t id_width, double cv_max, bool colours) {
  const json& batch = c.last.at("batch");
  const std::string batch_text =
      fmt::format("{:g}{}", batch["size"].get<double>(), batch["by"] == "seconds" ? " s" : "");
  const bool decodes = !c.failure && c.last["decoder"]["head"] != "none";
  const json wer = decodes ? c.last["wer"]["wer"] : json();
  const std::string grade = grade_text(c);
  const fmt::text_style style =
      colours ? grade_style(c.failure ? "failed" : c.grade) : fmt::text_style();
  fmt::print("  {:<{}} {:>6}  {:<4} {} {} {:>7}  {}{}{}\n", id_of(c), id_width, batch_text,
             c.last["dtype"].get<std::string>(), right(figure(c.values("rtfx.total")), 15),
             right(decodes ? figure(c.values("rtfx.decode")) : "-", 17),
             wer.is_number() ? fmt::format("{:.2f}", 100 * wer.get<double>()) : "-",
             fmt::format(style, "{}", grade), c.noisy(cv_max) ? "  NOISY" : "",
             c.failure ? "" : further_figures(c.last));
}

void print_details(const std::vector<CaseSummary>& cases) {
  for (const CaseSummary& c : cases) {
    if (c.failure) {
      fmt::print("\n{} failed: {}\n", c.case_name(), *c.failure);
    } else if (c.first_difference.is_object()) {
      const json& d = c.first_difference;
      const std::string margin =
          d["margin"].is_number() ? fmt::format(", margin {:.3g}", d["margin"].get<double>()) : "";
      fmt::print(
          "\n{}: first difference in {} at frame {} ({:.2f} s{})\n    {:<12} {}\n    {:<12} {}\n",
          c.case_name(), d["utterance"].get<std::string>(), d["frame"].get<int64_t>(),
          d["seconds"].get<double>(), margin, "baseline:", d["baseline_words"].get<std::string>(),
          "here:", d["words"].get<std::string>());
    }
  }
}

}  // namespace

void print_table(const std::vector<json>& records, double cv_max) {
  const std::vector<CaseSummary> cases = summarize_cases(records);
  if (cases.empty()) return;
  const bool colours = use_colours();
  size_t id_width = kLeastIdWidth;
  std::vector<std::string> groups;
  std::set<std::string> baselines;
  for (const CaseSummary& c : cases) {
    id_width = std::max(id_width, id_of(c).size());
    if (std::find(groups.begin(), groups.end(), group_of(c)) == groups.end())
      groups.push_back(group_of(c));
    if (!c.failure && c.grade == "baseline") baselines.insert(c.last["decoder"]["id"]);
  }
  for (const std::string& group : groups) {
    fmt::print("\n{}\n  {:<{}} {:>6}  {:<4} {:>15} {:>17} {:>7}  {}\n", group, "decoder", id_width,
               "batch", "type", "RTFx total", "RTFx decode", "WER %", "grade");
    for (const CaseSummary& c : cases) {
      if (group_of(c) == group) print_row(c, id_width, cv_max, colours);
    }
  }
  std::string names;
  for (const std::string& name : baselines) names += (names.empty() ? "" : ", ") + name;
  fmt::print(
      "\nRTFx: seconds of audio per second of work, mean ± sd over rounds; total: from samples to\n"
      "text, decode: the decoder alone. Baseline: {}.\n"
      "bitwise > exact (same tokens, frames, durations) > tie (differs within rounding) >\n"
      "text (same words) > wer (same WER) > different. ~: declared approximate.\n",
      names.empty() ? "none" : names);
  const auto any_has = [&](const char* field) {
    return std::any_of(cases.begin(), cases.end(),
                       [&](const CaseSummary& c) { return c.last.contains(field); });
  };
  if (any_has("oracle_wer"))
    fmt::print("oracle: WER if every utterance had the best text of its n-best list.\n");
  if (any_has("boosted")) {
    fmt::print(
        "recall: % of the boosted words' occurrences that were recognised; precision: % of the\n"
        "boosted words in the results that were said there.\n");
  }
  print_details(cases);
}

}  // namespace rtfx
