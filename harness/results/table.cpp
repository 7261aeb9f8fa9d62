#include "harness/results/table.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/printable.h"
#include "harness/results/summaries.h"
#include "models/synthetic.h"

namespace rtfx {
namespace {

using nlohmann::json;

bool use_colours() { return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::string figure(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const Summary s = summarize(values);
  const int digits = s.mean < 100 ? 1 : 0;
  return fmt::format("{:.{}f} ± {:.{}f}", s.mean, digits, s.sd, digits);
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

fmt::text_style grade_style(const std::string& grade) {
  if (grade == "bitwise" || grade == "exact") return fmt::fg(fmt::terminal_color::green);
  if (grade == "rounding" || grade == "text") return fmt::fg(fmt::terminal_color::yellow);
  if (grade == "baseline" || grade.empty()) return {};
  return fmt::fg(fmt::terminal_color::red);
}

/// "exact", "text ~ NOISY"; "-" where there is nothing to say.
std::string judgement(const CaseSummary& c) {
  std::vector<std::string> words = c.marks();
  if (!c.grade_text().empty()) words.insert(words.begin(), c.grade_text());
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, " "));
}

std::string group_of(const CaseSummary& c) {
  const json& dataset = c.last.at("dataset");
  const bool synthetic = c.last["model"].value("weights", "") == "synthetic";
  return printable(fmt::format(
      "{} on {} ({} utterances, {:.0f} s of audio, {}){}", c.last["model"]["id"].get<std::string>(),
      dataset["id"].get<std::string>(), dataset["utterances"].get<int64_t>(),
      dataset["audio_seconds"].get<double>(), c.last["device"].get<std::string>(),
      synthetic ? fmt::format(": {}", kSyntheticLabel) : ""));
}

std::string id_of(const CaseSummary& c) {
  return printable(c.last["decoder"]["id"].get<std::string>());
}

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

using Row = std::vector<std::string>;

const Row& head() {
  static const Row names = {"decoder",     "batch", "type",  "RTFx total",
                            "RTFx decode", "WER %", "S/D/I", "grade"};
  return names;
}

Row row_of(const CaseSummary& c) {
  const json& batch = c.last.at("batch");
  const json errors = c.word_errors();
  Row row = {
      id_of(c),
      fmt::format("{:g}{}", batch["size"].get<double>(), batch["by"] == "seconds" ? " s" : ""),
      c.last["dtype"].get<std::string>(),
      figure(c.values("rtfx.total")),
      figure(c.values("rtfx.decode")),
      "-",
      "-",
      judgement(c)};
  if (errors.is_object()) {
    row[5] = fmt::format("{:.2f}", 100 * errors["wer"].get<double>());
    row[6] = fmt::format("{}/{}/{}", errors["substitutions"].get<int64_t>(),
                         errors["deletions"].get<int64_t>(), errors["insertions"].get<int64_t>());
  }
  return row;
}

using Widths = std::vector<size_t>;

void widen(Widths& widths, const Row& row) {
  for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
}

/// The decoder and the type to the left, figures to the right, and what follows as it is.
std::string line_of(const Row& row, const Widths& widths, const std::string& last) {
  std::string line;
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    const std::string blanks(widths[i] - characters(row[i]), ' ');
    line += "  " + (i == 0 || i == 2 ? row[i] + blanks : blanks + row[i]);
  }
  return line + "  " + last;
}

void print_row(const CaseSummary& c, const Widths& widths, bool colours) {
  const Row row = row_of(c);
  const fmt::text_style style =
      colours ? grade_style(c.failure ? "failed" : c.grade) : fmt::text_style();
  fmt::print("{}{}\n", line_of(row, widths, fmt::format(style, "{}", row.back())),
             c.failure ? "" : further_figures(c.last));
}

/// A line for each kind of mark that there is.
std::string meaning_of_marks(const std::vector<CaseSummary>& cases) {
  static const std::vector<std::pair<std::string, std::string>> meanings = {
      {"BEYOND ROUNDING", "decisions, of all replayed, that are not the best one up to rounding"},
      {"NONDETERMINISTIC", "the decoder did not repeat its own hypotheses"},
      {"NOISY", "the rounds differ by more than protocol.cv_max: measure again"},
      {"EMPTY", "no result has a token, though the audio has words or sound"},
      {"suspect",
       "rounds, of all, in which the machine was throttled or a thread waited for a CPU"}};
  std::string text;
  for (const auto& [mark, meaning] : meanings) {
    const bool used = std::ranges::any_of(cases, [&](const CaseSummary& c) {
      return std::ranges::any_of(c.marks(), [&](const auto& m) { return m.starts_with(mark); });
    });
    if (used) text += fmt::format("{}: {}.\n", mark, meaning);
  }
  return text;
}

void print_details(const std::vector<CaseSummary>& cases) {
  for (const CaseSummary& c : cases) {
    if (c.failure) {
      fmt::print("\n{} failed: {}\n", printable(c.case_name()), printable(*c.failure));
    } else if (c.first_difference.is_object()) {
      const json& d = c.first_difference;
      fmt::print(
          "\n{}: first difference in {} at frame {} ({:.2f} s)\n    {:<12} {}\n    {:<12} {}\n",
          printable(c.case_name()), printable(d["utterance"].get<std::string>()),
          d["frame"].get<int64_t>(), d["seconds"].get<double>(),
          "baseline:", printable(d["baseline_words"].get<std::string>()),
          "here:", printable(d["words"].get<std::string>()));
    }
    if (const std::string beyond = beyond_rounding(c); !beyond.empty())
      fmt::print("\n{}: beyond rounding: {}\n", printable(c.case_name()), printable(beyond));
  }
}

}  // namespace

void print_table(const std::vector<json>& records) {
  const std::vector<CaseSummary> cases = summarize_cases(records);
  if (cases.empty()) return;
  const bool colours = use_colours();
  Widths widths(head().size());
  widen(widths, head());
  std::vector<std::string> groups;
  std::set<std::string> baselines;
  for (const CaseSummary& c : cases) {
    widen(widths, row_of(c));
    if (std::find(groups.begin(), groups.end(), group_of(c)) == groups.end())
      groups.push_back(group_of(c));
    if (!c.failure && c.grade == "baseline") baselines.insert(id_of(c));
  }
  for (const std::string& group : groups) {
    fmt::print("\n{}\n{}\n", group, line_of(head(), widths, head().back()));
    for (const CaseSummary& c : cases) {
      if (group_of(c) == group) print_row(c, widths, colours);
    }
  }
  std::string names;
  for (const std::string& name : baselines) names += (names.empty() ? "" : ", ") + name;
  fmt::print(
      "\nRTFx: seconds of audio per second of work, mean ± sd over rounds; total: from samples to\n"
      "text, decode: the decoder alone. S/D/I: words substituted, deleted, inserted.\n"
      "Baseline: {}.\n"
      "bitwise > exact (same tokens, frames, durations) > rounding (others, each decision the "
      "best\n"
      "up to rounding) > text (same words) > wer (same WER) > different. ~: declared approximate.\n"
      "{}",
      names.empty() ? "none" : names, meaning_of_marks(cases));
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
