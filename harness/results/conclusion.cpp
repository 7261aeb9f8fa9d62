#include "harness/results/conclusion.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/changes.h"
#include "harness/results/marks.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

constexpr const char* kDecodes = "decodes";
constexpr const char* kTotal = "turns audio into text";

const CaseSummary* find_baseline(const Summaries& cases, const CaseSummary& summary) {
  const record::Exactness* exactness = summary.last_exactness();
  if (exactness == nullptr) return nullptr;
  for (const CaseSummary& other : cases) {
    if (&other != &summary && other.about().decoder.id == exactness->baseline &&
        other.group() == summary.group())
      return &other;
  }
  return nullptr;
}

int64_t errors_of(const record::WordErrors& errors) {
  return errors.substitutions + errors.deletions + errors.insertions;
}

/// The word errors of a baseline and of another decoder. Both are null if either is missing.
struct ErrorPair {
  ErrorPair(const CaseSummary& baseline, const CaseSummary& summary)
      : before(baseline.word_errors()), now(summary.word_errors()) {
    static const record::WordErrors kNone;
    // A record with empty references and no insertions looks like one without references.
    if (before == nullptr && now != nullptr && !now->wer && baseline.last_run() != nullptr)
      before = &kNone;
    if (before == nullptr || now == nullptr) before = now = nullptr;
  }

  const record::WordErrors *before, *now;
};

/// Returns whether a decoder makes more word errors than its baseline by more than three standard
/// deviations of a difference of two counts. Both decode the same audio, which makes the true
/// deviation smaller.
bool makes_more_errors(const CaseSummary& baseline, const CaseSummary& summary) {
  const ErrorPair errors(baseline, summary);
  if (errors.now == nullptr) return false;
  const auto before = static_cast<double>(errors_of(*errors.before)),
             now = static_cast<double>(errors_of(*errors.now));
  return now - before > 3 * std::sqrt(before + now);
}

bool is_exact(const CaseSummary& summary) { return summary.about().decoder.exactness == "exact"; }

std::string wer_text(const CaseSummary& baseline, const CaseSummary& summary) {
  const auto [before, now] = ErrorPair(baseline, summary);
  if (now == nullptr) return "";
  if (!before->wer || !now->wer)
    return fmt::format("; {} words inserted instead of {}", now->insertions, before->insertions);
  return fmt::format("; WER {:.2f} % instead of {:.2f} %", 100 * *now->wer, 100 * *before->wer);
}

/// Returns why a case is wrong; empty if nothing shows it.
std::string fault_of(const Summaries& cases, const CaseSummary& summary) {
  const CaseSummary* baseline = find_baseline(cases, summary);
  std::string reason = summary.fault();
  if (baseline == nullptr) return reason;
  if (reason.empty() && is_exact(summary) && makes_more_errors(*baseline, summary))
    reason = fmt::format("more word errors than {}", baseline->about().decoder.id);
  return reason.empty() ? reason : reason + wer_text(*baseline, summary);
}

std::string batch_text(const record::Batch& batch) {
  return fmt::format("batch {:g}{}", static_cast<double>(batch.size),
                     batch.by == "seconds" ? " s" : "");
}

/// Marks that make times doubtful: the name, "suspect", and the text, "suspect 1/3".
using Disturbances = std::set<std::pair<std::string, std::string>>;

Disturbances disturbances(const CaseSummary& a, const CaseSummary& b) {
  Disturbances found;
  for (const Mark& mark : all_marks()) {
    if (!mark.makes_times_doubtful) continue;
    for (const CaseSummary* summary : {&a, &b}) {
      if (const std::string text = mark.text(*summary); !text.empty())
        found.emplace(mark.name, text);
    }
  }
  return found;
}

/// A decoder's gain over its baseline.
struct Gain {
  const CaseSummary *baseline, *summary;
  const char* verb;
  Interval ratio;
  Disturbances marks;

  /// Returns whether the rounds of the ratio are doubtful. Suspect rounds may have been left out of
  /// it.
  bool is_doubtful() const {
    const auto doubtful = [](const CaseSummary& one) {
      return one.noisy() || one.counted_rounds().disturbed;
    };
    return doubtful(*baseline) || doubtful(*summary);
  }
  auto rank() const { return std::tuple(!is_doubtful(), ratio.low > 1, ratio.estimate); }
};

std::optional<Gain> gain_of(const Summaries& cases, const CaseSummary& summary) {
  const CaseSummary* baseline = find_baseline(cases, summary);
  if (baseline == nullptr || !is_exact(summary) || summary.about().decoder.control_of)
    return std::nullopt;
  if (summary.failure || baseline->failure || !fault_of(cases, summary).empty() ||
      !fault_of(cases, *baseline).empty())
    return std::nullopt;
  for (const auto& [metric, verb] : {std::pair{"rtfx.decode", kDecodes}, {"rtfx.total", kTotal}}) {
    const Metric& speed = find_metric(metric, "");
    if (const auto ratio = ratio_within_run(speed, *baseline, summary))
      return Gain{baseline, &summary, verb, *ratio, disturbances(*baseline, summary)};
  }
  return std::nullopt;
}

std::vector<std::string> wrong_of(const Summaries& cases) {
  struct Fault {
    std::string reason;
    int64_t wrong = 0, cases = 0;
  };
  std::vector<std::pair<std::string, Fault>> faults;  // sorted by decoder and model, in their order
  for (const CaseSummary& summary : cases) {
    const std::string who = fmt::format("{} on {}", std::string(summary.about().decoder.id),
                                        std::string(summary.about().model.id));
    auto found = std::ranges::find(faults, who, &std::pair<std::string, Fault>::first);
    if (found == faults.end()) found = faults.insert(faults.end(), {who, {}});
    Fault& fault = found->second;
    ++fault.cases;
    const std::string reason = fault_of(cases, summary);
    if (reason.empty()) continue;
    if (fault.wrong++ == 0) fault.reason = reason;
  }
  std::vector<std::string> sentences;
  for (const auto& [who, fault] : faults) {
    if (fault.wrong == 0) continue;
    const std::string where =
        fault.cases == 1 ? "" : fmt::format(" in {} of {} cases", fault.wrong, fault.cases);
    sentences.push_back(fmt::format("WRONG: {}{}: {}.", who, where, fault.reason));
  }
  return sentences;
}

/// Uses three decimals if two would show 1.00 for a figure that is not 1.
std::string ratio_text(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

int digits_of(const Interval& ratio) {
  const auto near_one = [](double value) { return std::abs(value - 1) < 0.1; };
  return near_one(ratio.estimate) || near_one(ratio.low) || near_one(ratio.high) ? 3 : 2;
}

std::string interval_text(const Interval& ratio) {
  if (!std::isfinite(ratio.high)) return "one round: no interval";
  const int digits = digits_of(ratio);
  return fmt::format("95 %: {} to {}", ratio_text(ratio.low, digits),
                     ratio_text(ratio.high, digits));
}

/// Returns the geometric mean. Its interval assumes that all ratios share one error.
Interval mean_ratio(const std::vector<Interval>& ratios) {
  const auto mean = [&](double Interval::*part) {
    double sum = 0;
    for (const Interval& ratio : ratios) sum += std::log(ratio.*part);
    return std::exp(sum / static_cast<double>(ratios.size()));
  };
  const auto has_ends = [](const Interval& r) { return std::isfinite(r.high) && r.low > 0; };
  Interval all{mean(&Interval::estimate), -INFINITY, INFINITY};
  if (std::ranges::all_of(ratios, has_ends))
    all.low = mean(&Interval::low), all.high = mean(&Interval::high);
  return all;
}

/// The ratios of a speed over cases, and the number of cases with each kind of disturbance.
struct SpeedRatios {
  std::vector<Interval> ratios;
  std::map<std::string, size_t> disturbed;  // "NOISY", "suspect"

  void add(const Interval& ratio, const Disturbances& marks = {}) {
    ratios.push_back(ratio);
    std::set<std::string> kinds;
    for (const auto& [name, text] : marks) kinds.insert(name);
    for (const std::string& kind : kinds) ++disturbed[kind];
  }
  /// Returns, for example, "mean of 5 cases, NOISY, suspect in 2".
  std::string conditions() const {
    std::string text =
        ratios.size() == 1 ? "one case" : fmt::format("mean of {} cases", ratios.size());
    for (const auto& [kind, cases] : disturbed)
      text += cases == ratios.size() ? ", " + kind : fmt::format(", {} in {}", kind, cases);
    return text;
  }
};

/// The ratios of total and decoding speed.
struct Speeds {
  SpeedRatios total, decode;

  std::vector<std::string> sentences(const std::string& before, const std::string& now) const {
    std::vector<std::string> list;
    for (const auto& [verb, speed] : {std::pair{kTotal, &total}, {kDecodes, &decode}}) {
      if (speed->ratios.empty()) continue;
      list.push_back(
          speed_sentence(now, verb, before, mean_ratio(speed->ratios), speed->conditions()));
    }
    return list;
  }
};

}  // namespace

std::string speed_sentence(const std::string& subject, const std::string& verb,
                           const std::string& other, const Interval& ratio,
                           const std::string& conditions) {
  const bool known = std::isfinite(ratio.high);
  const bool holds_one = known && ratio.low <= 1 && ratio.high >= 1;
  return fmt::format("{}{} {} {} times as fast as {} ({}; {}{}).",
                     holds_one ? "no difference: " : "", subject, verb,
                     ratio_text(ratio.estimate, digits_of(ratio)), other, conditions,
                     interval_text(ratio), holds_one ? ", which holds 1" : "");
}

Conclusion conclude(const Summaries& cases) {
  std::map<std::string, Gain> best;
  std::map<std::string, int> count;  // gains of each model
  std::vector<std::string> models;
  for (const CaseSummary& summary : cases) {
    const auto gain = gain_of(cases, summary);
    if (!gain) continue;
    const std::string model(summary.about().model.id);
    const auto [found, fresh] = best.emplace(model, *gain);
    ++count[model];
    if (fresh) models.push_back(model);
    if (!fresh && found->second.rank() < gain->rank()) found->second = *gain;
  }
  Conclusion conclusion{wrong_of(cases), {}};
  for (const std::string& model : models) {
    const Gain& gain = best.at(model);
    const record::Case& about = gain.summary->about();
    std::string conditions =
        fmt::format("{}, {}", batch_text(about.batch), std::string(about.dtype));
    if (count.at(model) > 1) conditions += fmt::format(", best of {}", count.at(model));
    for (const auto& [name, text] : gain.marks) conditions += ", " + text;
    conclusion.won.push_back(fmt::format(
        "{}: {}", model,
        speed_sentence(std::string(about.decoder.id), gain.verb,
                       std::string(gain.baseline->about().decoder.id), gain.ratio, conditions)));
  }
  return conclusion;
}

std::vector<std::string> conclude(const ResultSet& before, const ResultSet& now,
                                  const std::string& before_name, const std::string& now_name) {
  const Summaries old = all_of(before), cases = all_of(now);
  Speeds speeds;
  for (const CaseResult& y : now.cases) {
    const CaseResult* x = before.find(y.name());
    if (x == nullptr || !y.control_of().empty()) continue;
    if (x->summary.failure || y.summary.failure || !fault_of(old, x->summary).empty() ||
        !fault_of(cases, y.summary).empty())
      continue;
    for (const auto& [metric, ratios] :
         {std::pair{"rtfx.total", &speeds.total}, {"rtfx.decode", &speeds.decode}}) {
      const Metric& speed = find_metric(metric, "");
      const auto a = counted_values(speed, x->summary), b = counted_values(speed, y.summary);
      if (a.empty() || b.empty()) continue;
      ratios->add(runs_ratio({a}, b), disturbances(x->summary, y.summary));
    }
  }
  return speeds.sentences(before_name, now_name);
}

std::vector<std::string> conclude(const std::vector<GateRow>& rows) {
  std::set<std::string> wrong;
  for (const GateRow& row : rows) {
    if (row.verdict == Verdict::correctness) wrong.insert(row.case_name);
  }
  Speeds speeds;
  for (const GateRow& row : rows) {
    if (!row.change || !row.is_fair || wrong.contains(row.case_name)) continue;
    if (row.what == "rtfx.total") speeds.total.add(*row.change);
    if (row.what == "rtfx.decode") speeds.decode.add(*row.change);
  }
  return speeds.sentences("the baseline", "this run");
}

void print_conclusion(const std::vector<std::string>& wrong, const std::vector<std::string>& won) {
  const auto style =
      use_colours() ? fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red) : fmt::text_style();
  if (!wrong.empty() || !won.empty()) fmt::print("\n");
  for (const std::string& sentence : wrong)
    fmt::print("{}\n", fmt::format(style, "{}", wrapped(printable(sentence), text_columns())));
  for (const std::string& sentence : won)
    fmt::print("{}\n", wrapped(printable(sentence), text_columns()));
}

}  // namespace rtfx
