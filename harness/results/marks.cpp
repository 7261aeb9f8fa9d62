#include "harness/results/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/results/stand_in.h"

namespace rtfx {
namespace {

// Share of the wall time that may be in no region without a mark.
constexpr double kMostGaps = 0.02;

std::string name_if(bool has_mark, const char* name) { return has_mark ? name : ""; }

std::string beyond_rounding_mark(const CaseSummary& summary) {
  if (beyond_rounding(summary).empty()) return "";
  return fmt::format("BEYOND ROUNDING {}/{}", summary.replay->beyond, summary.replay->decisions);
}

std::string nondeterministic_mark(const CaseSummary& summary) {
  return name_if(!summary.deterministic, "NONDETERMINISTIC");
}

std::string noisy_mark(const CaseSummary& summary) { return name_if(summary.noisy(), "NOISY"); }

std::string empty_mark(const CaseSummary& summary) {
  return name_if(summary.has_empty_round(), "EMPTY");
}

std::string overloaded_mark(const CaseSummary& summary) {
  const auto is_overloaded = [](const record::Round& round) {
    const auto* stream = std::get_if<record::StreamRun>(&round);
    return stream != nullptr && !stream->stable;
  };
  return name_if(std::ranges::any_of(summary.rounds, is_overloaded), "OVERLOADED");
}

std::string suspect_mark(const CaseSummary& summary) {
  const auto suspect = std::ranges::count_if(summary.rounds, record::is_suspect);
  return suspect > 0 ? fmt::format("suspect {}/{}", suspect, summary.rounds.size()) : "";
}

/// Names the busiest stage. All rounds together name it, since a single round may be chance.
std::string overlapped_mark(const CaseSummary& summary) {
  const record::Run* run = summary.last_run();
  if (run == nullptr || !run->pipeline) return "";
  std::string stage;
  double most = 0;
  for (const auto& [metric, _] : run->metrics) {
    if (!metric.starts_with("busy.")) continue;
    const std::vector<double> busy = summary.values(metric);
    const double mean = busy.empty() ? 0 : spread_of(busy).mean;
    if (mean > most) most = mean, stage = metric.substr(5);
  }
  return stage.empty() ? "overlapped"
                       : fmt::format("overlapped, {} {:.0f} % busy", stage, 100 * most);
}

std::string gaps_mark(const CaseSummary& summary) {
  const double gaps = summary.gaps().value_or(0);
  return gaps > kMostGaps ? fmt::format("gaps {:.1f} %", 100 * gaps) : "";
}

std::string stand_in_model_mark(const CaseSummary& summary) {
  return name_if(!stand_in_model(summary.about().model).empty(), kStandInModel);
}

std::string stand_in_data_mark(const CaseSummary& summary) {
  return name_if(!summary.stand_in_data.empty(), kStandInData);
}

/// Returns the reasons for which rounds of these cases are suspect, each with its explanation.
std::string reasons_text(const Summaries& cases) {
  static const std::map<std::string, std::string> why = {
      {"cpu_wait", "threads waited for a CPU for over 10 % of the round"},
      {"stopped", "the process was stopped or the machine slept for over 1 % of the round"},
      {"sm_clock", "the GPU's mean clock was below 75 % of its maximum"},
      {"sw_power_cap", "its power limit held its clocks down"},
      {"hw_slowdown", "heat or power halved its clocks"},
      {"sw_thermal", "heat held its clocks down"},
      {"hw_thermal", "heat halved its clocks"},
      {"hw_power_brake", "the power supply halved its clocks"}};
  std::set<std::string> reasons;
  for (const CaseSummary& summary : cases) {
    for (const auto& [reason, rounds] : summary.suspect_reasons()) reasons.insert(reason);
  }
  std::string text;
  for (const std::string& reason : reasons) {
    const auto known = why.find(reason);
    text += (text.empty() ? "" : "; ") + reason;
    if (known != why.end()) text += ": " + known->second;
  }
  return text;
}

}  // namespace

const std::vector<Mark>& all_marks() {
  static const std::vector<Mark> all = {
      {"BEYOND ROUNDING", "so many of all replayed decisions are not the best one up to rounding",
       false, beyond_rounding_mark},
      {"NONDETERMINISTIC", "the decoder did not repeat its own hypotheses", true,
       nondeterministic_mark},
      {"NOISY", "the rounds differ by more than protocol.cv_max, so measure again", true,
       noisy_mark},
      {"EMPTY", "no result has a token, though the audio has words or sound", false, empty_mark},
      {"OVERLOADED", "the queue time of the streams grew by more than 0.01 s per second", false,
       overloaded_mark},
      {"suspect", "the machine disturbed so many of all rounds", true, suspect_mark},
      {"overlapped",
       "batches overlap, so the total RTFx is by the wall clock of a pass, and decoding has no "
       "time of its own; the mark names the busiest stage and its share of the pass",
       false, overlapped_mark},
      {"gaps",
       "so much of the batches' wall time lies between the regions, and no figure counts it", false,
       gaps_mark},
      {kStandInModel, "", false, stand_in_model_mark},
      {kStandInData, "", false, stand_in_data_mark}};
  return all;
}

std::vector<std::string> CaseSummary::marks() const {
  std::vector<std::string> texts;
  for (const Mark& mark : all_marks()) {
    if (std::string text = mark.text(*this); !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

Meanings meanings_of_marks(const Summaries& cases) {
  Meanings meanings;
  for (const Mark& mark : all_marks()) {
    const std::string meaning = mark.meaning;
    const auto has_it = [&](const CaseSummary& summary) { return !mark.text(summary).empty(); };
    if (meaning.empty() || std::ranges::none_of(cases, has_it)) continue;
    const std::string reasons = mark.text == suspect_mark ? reasons_text(cases) : "";
    meanings.emplace_back(mark.name,
                          reasons.empty() ? meaning : fmt::format("{} ({})", meaning, reasons));
  }
  return meanings;
}

}  // namespace rtfx
