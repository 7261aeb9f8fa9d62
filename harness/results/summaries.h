// Makes one summary for each case from the records. Every mean, grade and mark that a table, a
// page, a figure or an export shows is computed here. This is also the place that decides which of
// them may be shown.
//
// All rounds under the newest result key of a case count. Rounds before a failure count too, if a
// later run of the same key has succeeded, since they measured the same thing. Rounds under another
// key have another build, model or setting, and do not count. While the last record of a case is a
// failure, the case has no rounds and no grade. `--resume` then measures the last round again,
// which replaces the earlier round of its number.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "harness/results/records.h"
#include "harness/results/statistics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

/// The last record of a case.
using CaseRecord = std::variant<record::Run, record::StreamRun, record::Failure>;

/// Returns whether a figure of this case may be shown. `metric` is a key of metrics(). A decoder
/// without a head (`null`) gives no words. It has only rtfx.total, rtfx.wall, rtfx.encode_decode,
/// batch_ms.*, busy.* and energy.*.
bool is_shown(const record::Case& of, std::string_view metric);

/// Returns the name of the same case in fp32.
std::string name_in_fp32(std::string_view case_name);

/// The rounds that count when the speed of a case is compared with that of another one, in one run
/// or in two.
struct CountedRounds {
  std::vector<const record::Round*> rounds;
  size_t of = 0;           // all rounds of the case
  bool disturbed = false;  // fewer than three rounds are undisturbed, so all count

  /// Returns "8 of 10 rounds, 2 suspect left out", "10 of 10 rounds, 2 of them suspect" or "10 of
  /// 10 rounds".
  std::string text() const;
};

struct CaseSummary {
  CaseRecord last;
  record::Rounds rounds;  // ordered by number
  std::string grade;      // worst grade of all rounds; empty without a baseline to compare with
  /// First difference in the first round with that grade.
  Nullable<record::FirstDifference> first_difference;
  /// Replay of the first round with a failed one, or of the last round.
  Nullable<record::Replay> replay;
  bool deterministic = true;           // all rounds gave the same hypotheses
  std::optional<std::string> failure;  // stage and message
  /// Coefficient of variation above which a case is NOISY, from the last provenance. Journals that
  /// do not say it have the default of `protocol.cv_max`.
  double cv_max = 0.05;
  /// Worst grade that an exact decoder may have, from the last provenance.
  Grade required = Grade::different;
  std::string stand_in_data;  // what was decoded in place of the set that the case names
  int64_t repeated = 0;       // records that repeated a round word for word

  /// Returns model, dataset, decoder and batches of the last record.
  const record::Case& about() const { return record::fields(last); }
  SharedText case_name() const { return about().case_name; }
  /// Returns the case name without its decoder. Cases of one group share encoder passes.
  std::string group() const;
  /// Returns the rounds that the machine did not disturb (docs/journal.md, "suspect"). If fewer
  /// than three are left, all rounds count. Comparisons by `rtfx` use this rule. Means in tables,
  /// and in the pages that scripts make, are over all rounds and have the mark `suspect`.
  CountedRounds counted_rounds() const;
  /// Returns the last record of a case of `rtfx run` that has not failed; null for others.
  const record::Run* last_run() const { return std::get_if<record::Run>(&last); }
  /// Returns the exactness of that record; null if it has none.
  const record::Exactness* last_exactness() const;
  /// Returns a figure that records store, such as "rtfx.total", for each round that has it and may
  /// show it. Computed metrics (Metric::value) are not stored, and have none here.
  std::vector<double> values(const std::string& metric) const;
  /// Returns whether values of rounds vary by more than the share `cv_max` (sd / mean).
  bool varies_too_much(const std::vector<double>& values) const;
  /// Returns whether rtfx.total varies too much over all rounds. Tables show means over all rounds
  /// and their spread, so the mark NOISY is about all rounds, too. The gate judges
  /// counted_rounds(), so a spread that only suspect rounds make is none for it.
  bool noisy() const;
  /// Returns whether the results of any round have no token, though the audio has words or sound.
  bool has_empty_round() const;
  /// Returns substitutions, deletions, insertions and the rate of the last round. Null if there is
  /// no reference, or if nothing may be shown. If all references are empty, there are insertions
  /// and no rate.
  const record::WordErrors* word_errors() const;
  /// Returns the share of the batches' wall time that lies in no region, and so in no figure. None
  /// in journals that lack it.
  std::optional<double> gaps() const;
  /// Returns the share of the rounds that the machine disturbed. None in journals that lack it.
  std::optional<double> suspect_share() const;
  /// Returns the reasons, with the number of rounds that each disturbed, such as {"cpu_wait": 3}.
  std::map<std::string, int64_t> suspect_reasons() const;
  /// Returns the marks that warn the reader of the figures, such as "NOISY" and "suspect 1/3"
  /// (marks.h).
  std::vector<std::string> marks() const;
  /// Says which parts are stand-ins, as stand_in_marks() does.
  std::vector<std::string> stand_ins() const;
  /// Returns how the results miss the required grade, or what replay refused. Empty if they do not.
  std::string inexact() const;
  /// Returns why the results are wrong, however fast they came. There are three reasons: inexact(),
  /// a decoder that did not repeat its own hypotheses, and one that found no token at all. Empty if
  /// nothing shows it.
  std::string fault() const;
  /// Returns "exact", "text ~" (for a decoder that is declared approximate) or "FAILED". Empty if
  /// there is nothing to compare with.
  std::string grade_text() const;
};

/// Returns how far the word error rate of a case exceeds that of the same case in fp32. Empty if it
/// does so by at most the share `allowed` (verify.wer_above_fp32), or if one of both has no rate.
std::string above_fp32(const CaseSummary& summary, const CaseSummary& in_fp32, double allowed);

/// Some or all cases of a run.
using Summaries = std::vector<std::reference_wrapper<const CaseSummary>>;
Summaries all_of(const std::vector<CaseSummary>& cases);

/// Returns the first decision beyond rounding, such as "label 5 instead of 7 at frame 12 (0.96 s)
/// of 'utt', gap 0.5, bound 0.1". If the record does not name it, returns "3 of 2422 decisions".
/// Empty if no decision is beyond rounding.
std::string beyond_rounding(const CaseSummary& summary);

/// Returns one summary for each case in the order of first appearance. For `rtfx stream`, each
/// number of streams is a case. Throws UserError for records of a profile.
std::vector<CaseSummary> summarize(record::Records records);

/// Summarizes records that come one by one, so that a long journal is in memory only once.
class Summarizer {
 public:
  Summarizer();
  ~Summarizer();
  void add(record::Any&& record);
  std::vector<CaseSummary> finish();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Returns only the summaries of `rtfx run`.
std::vector<CaseSummary> summarize_cases(record::Records records);

/// Returns the number of streams in the name of a case of `rtfx stream`; none in other names.
std::optional<int64_t> streams_of(const record::Case& about);

/// Returns whether the run takes the place of an earlier failure. Both have the same model,
/// dataset, decoder and dtype. The failure has no result key, because it happened before `rtfx
/// stream` began with any number of streams.
bool supersedes(const record::StreamRun& run, const record::Failure& failure);

/// Returns whether the case is one of `rtfx stream`.
bool is_stream(const CaseSummary& summary);

/// Returns the record of kind "summary". It does not hold the failure that ended the case.
record::Summary summary_record(const CaseSummary& summary);

/// A case as `rtfx summary` prints it, without "last" and "rounds", which are records:
///   {"name", "failure" (its record), "grade", "first_difference", "replay",
///    "worst_round" (the index of the first round with the grade), "deterministic", "noisy",
///    "marks", "stand_in_data" (text or null), "metrics": {name: {"mean", "sd"}} of those that may
///    be shown, "regions": {name: mean seconds on the host}}
nlohmann::json summary_json(const CaseSummary& summary);

}  // namespace rtfx
