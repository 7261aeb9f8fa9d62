#include "harness/results/table.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/conclusion.h"
#include "harness/results/marks.h"
#include "harness/results/stand_in.h"
#include "harness/results/summaries.h"

namespace rtfx {

namespace {

/// Returns the decimals of a mean. Below 1, two digits are significant.
int decimals_of(double mean) {
  if (mean >= 100) return 0;
  return mean >= 1 || mean <= 0 ? 1 : 1 - static_cast<int>(std::floor(std::log10(mean)));
}

/// Returns, for example, "35.2 ± 2.5". A single value has no deviation. figure_of() of
/// plots/report.py has the same digits.
std::string figure(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const Spread s = spread_of(values);
  const int decimals = decimals_of(s.mean);
  const std::string mean = fmt::format("{:.{}f}", s.mean, decimals);
  return values.size() == 1 ? mean : fmt::format("{} ± {:.{}f}", mean, s.sd, decimals);
}

fmt::text_style grade_style(const std::string& grade) {
  if (grade == "bitwise" || grade == "exact") return fmt::fg(fmt::terminal_color::green);
  if (grade == "rounding" || grade == "text") return fmt::fg(fmt::terminal_color::yellow);
  if (grade == "baseline" || grade.empty()) return {};
  return fmt::fg(fmt::terminal_color::red);
}

/// Returns, for example, "exact" or "text ~ NOISY"; "-" if there is nothing to say.
std::string judgement(const CaseSummary& c) {
  std::vector<std::string> words = c.marks();
  words.resize(words.size() - c.stand_ins().size());  // the heading of the group has these marks
  if (!c.grade_text().empty()) words.insert(words.begin(), c.grade_text());
  return words.empty() ? "-" : printable(fmt::format("{}", fmt::join(words, " ")));
}

std::string group_of(const CaseSummary& c) {
  const record::Case& about = c.about();
  std::vector<std::string> stand_ins;
  if (const std::string model = stand_in_model(about.model); !model.empty())
    stand_ins.push_back(fmt::format("{}: {}", kStandInModel, model));
  if (!c.stand_in_data.empty())
    stand_ins.push_back(fmt::format("{}: {}", kStandInData, c.stand_in_data));
  return printable(fmt::format("{} on {} ({}, {:.0f} s of audio, {}){}{}", about.model.id,
                               about.dataset.id, counted(about.dataset.utterances, "utterance"),
                               static_cast<double>(about.dataset.audio_seconds), about.device,
                               stand_ins.empty() ? "" : ": ", fmt::join(stand_ins, ", ")));
}

std::string id_of(const CaseSummary& c) { return printable(c.about().decoder.id); }

/// Returns whether most of the references are in scripts without spaces between words, for which
/// WER says little.
bool has_few_spaces(const record::Run& run) {
  return 2 * run.wer.unspaced_characters.value_or(0) > run.wer.reference_characters.value_or(0);
}

/// Returns whether the character error rate stands beside the WER.
bool shows_characters(const record::Run& run) {
  return has_few_spaces(run) || run.wer.normalizer == "unicode_words";
}

/// Returns the figures that only some decoders have, for the end of the row.
std::string further_figures(const record::Run& run) {
  std::string text;
  const auto add = [&](const char* name, const Optional<Nullable<Number>>& value) {
    if (const Number* number = known(value))
      text += fmt::format("  {} {:.2f}", name, 100 * *number);
  };
  if (shows_characters(run) && run.wer.cer) add("CER", *run.wer.cer);
  if (const record::OracleErrors* oracle = known(run.oracle_wer)) add("oracle", oracle->wer);
  if (const record::Boosted* boosted = known(run.boosted)) {
    add("recall", boosted->recall);
    add("precision", boosted->precision);
  }
  return text;
}

/// Returns the tokens per second of audio, the RTFx of the first pass, and a grade against the
/// isolated pass if it is not the best one.
std::string passes_of(const CaseSummary& c) {
  std::string text;
  const auto tokens = c.values("tokens.per_second"),
             wanted = c.values("tokens.reference_per_second");
  if (!tokens.empty()) text += fmt::format("  tokens/s {:.2f}", tokens.back());
  if (!tokens.empty() && !wanted.empty()) text += fmt::format(" of {:.2f}", wanted.back());
  if (const auto first = c.values("rtfx.first_pass"); !first.empty())
    text += fmt::format("  first pass {:.1f}", first.front());
  const record::Run* run = c.last_run();
  if (run != nullptr && run->isolated && run->isolated->grade != "bitwise")
    text += fmt::format("  {} against isolated", run->isolated->grade);
  return text;
}

using Row = std::vector<std::string>;

const Row& head() {
  static const Row names = {"decoder",     "batch", "type",  "RTFx total",
                            "RTFx decode", "WER %", "S/D/I", "grade"};
  return names;
}

Row row_of(const CaseSummary& c) {
  const record::Batch& batch = c.about().batch;
  Row row = {id_of(c),
             fmt::format("{:g}{}", static_cast<double>(batch.size),
                         batch.by == "seconds"   ? " s"
                         : batch.largest == true ? " max"
                                                 : ""),
             c.about().dtype,
             figure(c.values("rtfx.total")),
             figure(c.values("rtfx.decode")),
             "-",
             "-",
             judgement(c)};
  if (const record::WordErrors* errors = c.word_errors()) {
    if (errors->wer) row[5] = fmt::format("{:.2f}", 100 * *errors->wer);
    row[6] = fmt::format("{}/{}/{}", errors->substitutions, errors->deletions, errors->insertions);
  }
  return row;
}

using Widths = std::vector<size_t>;

void widen(Widths& widths, const Row& row) {
  for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
}

/// The width of a table, and whether its rows are broken to fit the terminal. In a broken row, the
/// decoder has a line of its own, and the text behind the figures is wrapped.
struct Layout {
  Widths widths;
  std::optional<size_t> columns;
  bool broken = false;

  Layout(Widths all, size_t last) : widths(std::move(all)), columns(terminal_columns()) {
    size_t width = last;
    for (const size_t one : widths) width += one + 2;
    broken = columns && width > *columns;
  }

  /// Returns a line with decoder and type to the left and figures to the right. The rest follows as
  /// it is. `last` replaces row.back(); it has colours and the text behind it.
  std::string line(const Row& row, const std::string& last) const {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      if (i == 0 && broken) {
        line += "  " + row[i] + "\n";
        continue;
      }
      const std::string blanks(widths[i] - width_of(row[i]), ' ');
      line += "  " + (i == 0 || i == 2 ? row[i] + blanks : blanks + row[i]);
    }
    if (!broken) return line + "  " + last;
    constexpr size_t kIndent = 4;
    return wrapped(line + "  " + last, *columns, kIndent);
  }
};

void print_row(const CaseSummary& c, const Layout& layout, bool colours) {
  const Row row = row_of(c);
  const fmt::text_style style =
      colours ? grade_style(c.failure ? "failed" : c.grade) : fmt::text_style();
  const std::string more =
      c.last_run() == nullptr ? "" : passes_of(c) + further_figures(*c.last_run());
  fmt::print("{}\n", layout.line(row, fmt::format(style, "{}", row.back()) + more));
}

using Costs = std::vector<std::pair<const char*, const char*>>;  // heading and metric of each cost

Costs costs_of(const Summaries& cases) {
  Costs columns = {{"p50 ms", "batch_ms.p50"},      {"p95 ms", "batch_ms.p95"},
                   {"p99 ms", "batch_ms.p99"},      {"kept MiB", "memory.kept_mib"},
                   {"peak MiB", "memory.peak_mib"}, {"J/h", "energy.joules_per_hour"}};
  const Costs overlapped = {{"first ms", "batch_ms.first"}, {"load %", "busy.load"},
                            {"copy %", "busy.copy"},        {"encoder %", "busy.encoder"},
                            {"decode %", "busy.decode"},    {"texts %", "busy.texts"}};
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
    row.push_back(values.empty() ? "-" : fmt::format("{:.1f}", unit * spread_of(values).mean));
  }
  row.emplace_back();
  return row;
}

void print_details(const Summaries& cases) {
  for (const CaseSummary& c : cases) {
    if (c.failure) {
      print_wrapped(
          fmt::format("\n{} failed: {}", printable(c.case_name()), printable(*c.failure)));
    } else if (c.first_difference) {
      const record::FirstDifference& d = *c.first_difference;
      print_wrapped(fmt::format("\n{}: first difference in {} at frame {} ({:.2f} s)",
                                printable(c.case_name()), printable(d.utterance), d.frame,
                                static_cast<double>(d.seconds)));
      fmt::print("    {:<12} {}\n    {:<12} {}\n", "baseline:", printable(d.baseline_words),
                 "here:", printable(d.words));
    }
    if (const std::string beyond = beyond_rounding(c); !beyond.empty())
      print_wrapped(
          fmt::format("\n{}: beyond rounding: {}", printable(c.case_name()), printable(beyond)));
  }
}

/// Returns the ids of A/A controls, such as "frame_looping.aa".
std::set<std::string> controls_of(const Summaries& cases) {
  std::set<std::string> ids;
  for (const CaseSummary& c : cases) {
    if (c.about().decoder.control_of) ids.insert(id_of(c));
  }
  return ids;
}

}  // namespace

void print_table(const Summaries& cases) {
  if (cases.empty()) return;
  const bool colours = use_colours();
  Widths widths(head().size());
  widen(widths, head());
  size_t last = 0;
  std::vector<std::string> groups;
  std::set<std::string> baselines;
  for (const CaseSummary& c : cases) {
    widen(widths, row_of(c));
    last = std::max(last, width_of(judgement(c)));
    if (std::find(groups.begin(), groups.end(), group_of(c)) == groups.end())
      groups.push_back(group_of(c));
    if (!c.failure && c.grade == "baseline") baselines.insert(id_of(c));
  }
  const Layout layout(std::move(widths), last);
  for (const std::string& group : groups) {
    print_wrapped("\n" + group);
    fmt::print("{}\n", layout.line(head(), head().back()));
    for (const CaseSummary& c : cases) {
      if (group_of(c) == group) print_row(c, layout, colours);
    }
  }
  std::string names;
  for (const std::string& name : baselines) names += (names.empty() ? "" : ", ") + name;
  const auto explain = [](const std::string& text) {
    fmt::print("{}\n", wrapped(text, text_columns()));
  };
  fmt::print("\n");
  explain(fmt::format(
      "RTFx: seconds of audio per second of work, mean ± sd over rounds; total: from samples to "
      "text, decode: the decoder alone. S/D/I: words substituted, deleted, inserted.\n"
      "Baseline: {}.\n"
      "bitwise > exact (same tokens, frames, durations) > rounding (others, each decision the best "
      "up to rounding) > text (same words) > wer (same WER) > different. ~: declared "
      "approximate.",
      names.empty() ? "none" : names));
  for (const auto& [mark, meaning] : meanings_of_marks(cases))
    print_wrapped(fmt::format("{}: {}.", mark, printable(meaning)));
  const auto any_has = [&](const auto& member) {
    return std::ranges::any_of(cases, [&](const CaseSummary& c) {
      return c.last_run() != nullptr && (c.last_run()->*member).has_value();
    });
  };
  if (std::ranges::any_of(
          cases, [](const CaseSummary& c) { return !c.values("tokens.per_second").empty(); }))
    explain("tokens/s: tokens of the results per second of audio, of those of the references.");
  for (const std::string& id : controls_of(cases))
    explain(id + ": its decoder once more, an A/A control; the two differ by noise alone.");
  if (any_has(&record::Run::pipeline))
    explain("first pass: RTFx of the first pass of a process, which no other one has prepared.");
  const auto any_run = [&](const auto& holds) {
    return std::ranges::any_of(cases, [&](const CaseSummary& c) {
      return c.last_run() != nullptr && holds(*c.last_run());
    });
  };
  if (any_run(shows_characters))
    explain("CER: characters wrong, too many or missing / characters of the references, in %.");
  if (any_run(has_few_spaces))
    explain(
        "The references are in a script without spaces, so that a word of the WER is a whole "
        "phrase: the CER is what counts. The scorer unicode_words counts each ideograph as a "
        "word.");
  if (any_has(&record::Run::oracle_wer))
    explain("oracle: WER if every utterance had the best text of its n-best list.");
  if (any_has(&record::Run::boosted)) {
    explain(
        "recall: % of the boosted words' occurrences that were recognised; precision: % of the "
        "boosted words in the results that were said there.");
  }
  print_details(cases);
  const Conclusion conclusion = conclude(cases);
  print_conclusion(conclusion.wrong, conclusion.won);
}

void print_costs(const Summaries& cases) {
  if (cases.empty()) return;
  Row heads = {head().begin(), head().begin() + 3};
  const Costs costs = costs_of(cases);
  for (const auto& [name, metric] : costs) heads.emplace_back(name);
  heads.emplace_back();
  Widths widths(heads.size());
  widen(widths, heads);
  for (const CaseSummary& c : cases) widen(widths, cost_row(c, costs));
  const Layout layout(std::move(widths), 0);
  std::string group;
  for (const CaseSummary& c : cases) {
    if (group_of(c) != group) {
      print_wrapped("\n" + group_of(c));
      fmt::print("{}\n", layout.line(heads, ""));
    }
    group = group_of(c);
    fmt::print("{}\n", layout.line(cost_row(c, costs), ""));
  }
  std::string legend =
      "p50, p95, p99: time of a batch from samples to text, means over rounds of its percentiles; "
      "p95 wants 20 batches in a round, p99 100. kept, peak: GPU memory of the decoder between "
      "batches and at most while it decodes, without model and encoder. J/h: energy of the GPU for "
      "an hour of audio from samples to text, this decoder alone on it (protocol.energy_seconds).";
  if (costs.size() > 6) {
    legend +=
        "\nfirst: time of the first batch of the process from samples to text. load, copy, "
        "encoder, "
        "decode, texts: share of an overlapped pass in which that stage is busy.";
  }
  fmt::print("\n{}\n", wrapped(legend, text_columns()));
}

}  // namespace rtfx
