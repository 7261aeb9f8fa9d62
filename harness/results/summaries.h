// This makes one summary per case from the records. Every mean, grade and mark that a table, a
// page, a figure or an export shows is made here. It is also said here which of them may be shown.
//
// All rounds under a case's newest result key count. Those before a failure count too, once a later
// run of the same key has succeeded, since they measured the same thing. Rounds under another key
// are of another build, model or setting and do not count. While a failure is the last word, the
// case has no rounds and no grade.
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

/// Returns whether a figure of this case may be shown. `metric`: a key of metrics(). A decoder
/// without a head (`null`) gives no words, and has only rtfx.total, rtfx.wall, rtfx.encode_decode,
/// batch_ms.*, busy.* and energy.*.
bool is_shown(const record::Case& of, std::string_view metric);

/// The name of the same case in fp32.
std::string name_in_fp32(std::string_view case_name);

/// The rounds by which the speed of a case is compared with that of another one, in one run or in
/// two.
struct CountedRounds {
  std::vector<const record::Round*> rounds;
  size_t of = 0;           // rounds of the case
  bool disturbed = false;  // too few are undisturbed, so all count

  /// "8 of 10 rounds, 2 suspect left out", "10 of 10 rounds, 2 of them suspect", "10 of 10 rounds".
  std::string text() const;
};

struct CaseSummary {
  CaseRecord last;
  record::Rounds rounds;  // by number
  std::string grade;      // worst of all rounds; empty without anything to compare to
  Nullable<record::FirstDifference> first_difference;  // of the first round with that grade
  Nullable<record::Replay> replay;     // of the first round with a failed one, or of the last
  bool deterministic = true;           // all rounds gave the same hypotheses
  std::optional<std::string> failure;  // stage and message
  double cv_max = 0.05;                // above which a case is NOISY; of the last provenance
  Grade required = Grade::different;  // the worst that an exact decoder may have, by the provenance
  std::string stand_in_data;          // what was decoded in place of the set that the case names
  int64_t repeated = 0;               // records that repeated a round word for word

  /// Model, dataset, decoder and batches of the last record.
  const record::Case& about() const { return record::fields(last); }
  SharedText case_name() const { return about().case_name; }
  /// The case name without its decoder: what shares encoder passes with it.
  std::string group() const;
  /// Rounds that the machine did not disturb (docs/journal.md, "suspect"). Where fewer than three
  /// are left, all rounds count. Comparisons by `rtfx` use this rule. Means in tables and the pages
  /// of scripts are of all rounds, with the mark `suspect`.
  CountedRounds counted_rounds() const;
  /// The last record of a case of `rtfx run` that has not failed; null for others.
  const record::Run* last_run() const { return std::get_if<record::Run>(&last); }
  /// The exactness of that record; null where it has none.
  const record::Exactness* last_exactness() const;
  /// A figure that records store, such as "rtfx.total", of each round that has it and may show it.
  /// Metrics that are computed (Metric::value) have none here.
  std::vector<double> values(const std::string& metric) const;
  /// Whether rtfx.total varies by more than the share `cv_max` (sd / mean).
  bool noisy() const;
  /// Substitutions, deletions, insertions and the rate of the last round; null where there is no
  /// reference, or nothing that may be shown. Where all references are empty, there are insertions
  /// and no rate.
  const record::WordErrors* word_errors() const;
  /// The share of the batches' wall time that lies in no region, and so in no figure; none in
  /// journals that lack it.
  std::optional<double> gaps() const;
  /// The share of the rounds that the machine disturbed; none in journals that lack it.
  std::optional<double> suspect_share() const;
  /// Why, and in how many rounds: {"cpu_wait": 3}.
  std::map<std::string, int64_t> suspect_reasons() const;
  /// Marks that warn the reader of the figures:
  ///
  ///   BEYOND ROUNDING 3/812  decisions that replay refused, of all that were replayed
  ///   NONDETERMINISTIC, NOISY, EMPTY, OVERLOADED
  ///   suspect 1/3            rounds that the machine disturbed, of all
  ///   overlapped, encoder 97 % busy   in protocol.mode throughput
  ///   gaps 3.1 %             time in no region, where it is over 2 %
  ///   and the marks of stand_ins()
  std::vector<std::string> marks() const;
  /// Says which parts are stand-ins, as stand_in_marks() does.
  std::vector<std::string> stand_ins() const;
  /// How the results miss the required grade, or what replay refused; empty where they do not.
  std::string inexact() const;
  /// Why the results are wrong, however fast they came: inexact(), or the decoder did not repeat
  /// its own hypotheses, or found no token at all. Empty where nothing shows it.
  std::string fault() const;
  /// "exact", "text ~" (of a decoder that is declared approximate), "FAILED"; empty where there is
  /// nothing to compare to.
  std::string grade_text() const;
};

/// Some of the cases of a run, or all.
using Summaries = std::vector<std::reference_wrapper<const CaseSummary>>;
Summaries all_of(const std::vector<CaseSummary>& cases);

/// "label 5 instead of 7 at frame 12 (0.96 s) of 'utt', gap 0.5, bound 0.1": the first decision
/// that is beyond rounding. Where the record does not name it, "3 of 2422 decisions"; empty where
/// none is beyond rounding.
std::string beyond_rounding(const CaseSummary& summary);

/// One summary per case in the order of first appearance: of `rtfx run`, and of `rtfx stream` one
/// for each number of streams. Throws UserError for records of a profile.
std::vector<CaseSummary> summarize(record::Records records);

/// Summarizes records that come one by one, so that a long journal is held once.
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

/// Those of `rtfx run` alone.
std::vector<CaseSummary> summarize_cases(record::Records records);

/// Whether it is a case of `rtfx stream`.
bool is_stream(const CaseSummary& summary);

/// A sentence for each kind of mark that these cases have: {"suspect", "rounds, of all, that ..."}.
using Meanings = std::vector<std::pair<std::string, std::string>>;
Meanings meanings_of_marks(const Summaries& cases);

/// The record of kind "summary", without what ended the case.
record::Summary summary_record(const CaseSummary& summary);

/// A case as `rtfx summary` prints it, without "last" and "rounds", which are records:
///   {"name", "failure" (its record), "grade", "first_difference", "replay",
///    "worst_round" (the index of the first round with the grade), "deterministic", "noisy",
///    "marks", "stand_in_data" (text or null), "metrics": {name: {"mean", "sd"}} of those that may
///    be shown, "regions": {name: mean seconds on the host}}
nlohmann::json summary_json(const CaseSummary& summary);

}  // namespace rtfx
