#include "harness/results/table.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "base/printable.h"
#include "harness/results/stand_in.h"
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
  words.resize(words.size() - c.stand_ins().size());  // the group's heading has them
  if (!c.grade_text().empty()) words.insert(words.begin(), c.grade_text());
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, " "));
}

std::string group_of(const CaseSummary& c) {
  const json& dataset = c.last.at("dataset");
  std::string stand_ins = has_synthetic_weights(c.last) ? fmt::format(": {}", kSyntheticLabel) : "";
  if (!c.stand_in_data.empty())
    stand_ins +=
        fmt::format("{} {}: {}", stand_ins.empty() ? ":" : ",", kStandInData, c.stand_in_data);
  return printable(fmt::format(
      "{} on {} ({} utterances, {:.0f} s of audio, {}){}", c.last["model"]["id"].get<std::string>(),
      dataset["id"].get<std::string>(), dataset["utterances"].get<int64_t>(),
      dataset["audio_seconds"].get<double>(), c.last["device"].get<std::string>(), stand_ins));
}

std::string id_of(const CaseSummary& c) {
  return printable(c.last["decoder"]["id"].get<std::string>());
}

/// Whether the references are in a script without spaces between words, for which WER says little.
bool has_few_spaces(const json& run) {
  constexpr int64_t kLongWord = 15;  // characters; the longest mean of a language with spaces is 8
  const json errors = run.value("wer", json::object());
  if (!errors.is_object() || !errors.contains("reference_characters")) return false;
  return errors["reference_characters"].get<int64_t>() >
         kLongWord * errors.value("reference_words", int64_t{0});
}

/// Figures that only some decoders have, for the end of the row.
std::string further_figures(const json& run) {
  std::string text;
  const auto add = [&](const char* name, const json::json_pointer& where) {
    const json value = run.value(where, json());
    if (value.is_number()) text += fmt::format("  {} {:.2f}", name, 100 * value.get<double>());
  };
  if (has_few_spaces(run)) add("CER", "/wer/cer"_json_pointer);
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
  Row row = {id_of(c),
             fmt::format("{:g}{}", batch["size"].get<double>(),
                         batch["by"] == "seconds"        ? " s"
                         : batch.value("largest", false) ? " max"
                                                         : ""),
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

std::string meaning_of_marks(const std::vector<CaseSummary>& cases) {
  std::string text;
  for (const auto& [mark, meaning] : meanings_of_marks(cases))
    text += fmt::format("{}: {}.\n", mark, printable(meaning));
  return text;
}

using Costs = std::vector<std::pair<const char*, const char*>>;  // head and metric

Costs costs_of(const std::vector<CaseSummary>& cases) {
  Costs columns = {{"p50 ms", "batch_ms.p50"},      {"p95 ms", "batch_ms.p95"},
                   {"p99 ms", "batch_ms.p99"},      {"kept MiB", "memory.kept_mib"},
                   {"peak MiB", "memory.peak_mib"}, {"J/h", "energy.joules_per_hour"}};
  const Costs overlapped = {{"load %", "busy.load"},
                            {"copy %", "busy.copy"},
                            {"encoder %", "busy.encoder"},
                            {"decode %", "busy.decode"},
                            {"texts %", "busy.texts"}};
  for (const auto& column : overlapped) {
    const auto has = [&](const CaseSummary& c) { return !c.values(column.second).empty(); };
    if (std::ranges::any_of(cases, has)) columns.push_back(column);
  }
  return columns;
}

Row cost_row(const CaseSummary& c, const Costs& costs) {
  Row row = row_of(c);
  row.resize(3);
  for (const auto& [head, metric] : costs) {
    const std::vector<double> values = c.values(metric);
    const double unit = std::string_view(head).ends_with('%') ? 100 : 1;
    row.push_back(values.empty() ? "-" : fmt::format("{:.1f}", unit * summarize(values).mean));
  }
  row.emplace_back();
  return row;
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
  if (std::ranges::any_of(cases, [](const CaseSummary& c) { return has_few_spaces(c.last); }))
    fmt::print(
        "CER: characters wrong, too many or missing / characters of the references, in %.\n");
  if (any_has("oracle_wer"))
    fmt::print("oracle: WER if every utterance had the best text of its n-best list.\n");
  if (any_has("boosted")) {
    fmt::print(
        "recall: % of the boosted words' occurrences that were recognised; precision: % of the\n"
        "boosted words in the results that were said there.\n");
  }
  print_details(cases);
}

void print_costs(const std::vector<json>& records) {
  const std::vector<CaseSummary> cases = summarize_cases(records);
  if (cases.empty()) return;
  Row heads = {head().begin(), head().begin() + 3};
  const Costs costs = costs_of(cases);
  for (const auto& [name, metric] : costs) heads.emplace_back(name);
  heads.emplace_back();
  Widths widths(heads.size());
  widen(widths, heads);
  for (const CaseSummary& c : cases) widen(widths, cost_row(c, costs));
  std::string group;
  for (const CaseSummary& c : cases) {
    if (group_of(c) != group) fmt::print("\n{}\n{}\n", group_of(c), line_of(heads, widths, ""));
    group = group_of(c);
    fmt::print("{}\n", line_of(cost_row(c, costs), widths, ""));
  }
  fmt::print(
      "\np50, p95, p99: time of a batch from samples to text, means over rounds of its "
      "percentiles;\n"
      "p95 wants 20 batches in a round, p99 100. kept, peak: GPU memory of the decoder between\n"
      "batches and at most while it decodes, without model and encoder. J/h: energy of the GPU "
      "for\n"
      "an hour of audio from samples to text, this decoder alone on it "
      "(protocol.energy_seconds).\n");
  if (costs.size() > 6) {
    fmt::print(
        "load, copy, encoder, decode, texts: share of an overlapped pass in which that stage is "
        "busy.\n");
  }
}

}  // namespace rtfx
