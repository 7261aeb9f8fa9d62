#include "harness/results/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "harness/results/comparability.h"
#include "harness/results/contradictions.h"
#include "harness/results/gate.h"
#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

GateRow row_of(const CaseResult& c, const char* what, Verdict verdict, std::string reason) {
  return {.case_name = c.name(), .what = what, .verdict = verdict, .reason = std::move(reason)};
}

/// Returns the first round whose tokens differ from those of its baseline although its grade says
/// that they are equal. Empty if there is none.
std::string other_tokens(const ResultSet& journal, const CaseResult& c) {
  for (const record::Round& round : c.rounds()) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run == nullptr || !run->exactness || !run->tokens_sha256) continue;
    const record::Exactness& exactness = *run->exactness;
    if (exactness.grade != to_string(Grade::bitwise) && exactness.grade != to_string(Grade::exact))
      continue;
    for (const CaseResult& other : journal.cases) {
      if (other.decoder() != exactness.baseline || other.group() != c.group()) continue;
      for (const record::Round& its : other.rounds()) {
        const auto* baseline = std::get_if<record::Run>(&its);
        const bool is_same = baseline == nullptr || baseline->round != run->round ||
                             !baseline->tokens_sha256 ||
                             *baseline->tokens_sha256 == *run->tokens_sha256;
        if (is_same) continue;
        return fmt::format("round {}: its grade is {}, and its tokens_sha256 is not that of {}",
                           run->round, std::string_view(exactness.grade),
                           std::string_view(exactness.baseline));
      }
    }
  }
  return "";
}

}  // namespace

std::vector<GateRow> check_records(const ResultSet& journal) {
  std::vector<GateRow> rows;
  for (const CaseResult& c : journal.cases) {
    if (c.summary.failure) continue;
    if (const std::string why = unfit(c); !why.empty())
      rows.push_back(row_of(c, "case", Verdict::invalid, "no measurement: " + why));
    std::string why = contradiction(c);
    if (why.empty()) why = other_tokens(journal, c);
    if (!why.empty())
      rows.push_back(
          row_of(c, "case", Verdict::invalid, "its records contradict themselves: " + why));
    if (const std::string why = c.summary.fault(); !why.empty())
      rows.push_back(row_of(c, "case", Verdict::correctness, "by its own records: " + why));
  }
  return rows;
}

namespace {

std::string build_of(const record::Provenance& provenance) {
  const record::Build build = provenance.rtfx.value_or(record::Build());
  return build.revision.value_or("unknown") + (build.dirty == true ? " with changes" : "");
}

/// A claim, together with its rerun.
class Claim {
 public:
  Claim(const CaseResult& claim, const CaseResult& now)
      : claim_(claim), now_(now), least_(required_grade(claim, now)) {
    for (const ConditionDifference& difference : condition_differences(claim, now)) {
      if (difference.kind.empty() || difference.kind == kOtherSource) {  // another decoder
        pointless_.push_back(difference.text);
      } else if (difference.kind != "scorer") {  // only the WER depends on the scorer
        elsewhere_.push_back(difference.text);
      }
    }
    const std::string before = build_of(claim.provenance()), after = build_of(now.provenance());
    if (before != after)
      elsewhere_.push_back(fmt::format("other revision of rtfx: {}, now {}", before, after));
  }

  /// Returns whether speeds may be judged.
  bool is_here() const { return elsewhere_.empty() && comparable(); }

  std::vector<GateRow> rows() const {
    if (now_.summary.failure)
      return {row_of(claim_, "case", Verdict::invalid, "fails here: " + *now_.summary.failure)};
    if (const std::string why = unfit(now_); !why.empty())
      return {row_of(claim_, "case", Verdict::invalid, "the rerun is no measurement: " + why)};
    if (!pointless_.empty()) {
      return {
          row_of(claim_, "case", Verdict::invalid, fmt::format("{}", fmt::join(pointless_, "; ")))};
    }
    std::vector<GateRow> rows;
    if (!elsewhere_.empty()) {
      rows.push_back(
          row_of(claim_, "case", Verdict::pass,
                 fmt::format("another machine or program: {}", fmt::join(elsewhere_, "; "))));
    }
    add(rows, "results", judge_tokens());
    add(rows, "grade", judge_grade());
    rows.push_back(errors_row("wer", wer_of(claim_), wer_of(now_)));
    if (const auto before = cer_of(claim_), now = cer_of(now_); before && now)
      rows.push_back(errors_row("cer", before, now));
    if (!elsewhere_.empty()) add_speeds(rows);
    return rows;
  }

 private:
  bool comparable() const {
    return !now_.summary.failure && unfit(now_).empty() && pointless_.empty() &&
           unfit(claim_).empty();
  }
  bool is_exact() const { return now_.about().decoder.exactness == "exact"; }

  void add(std::vector<GateRow>& rows, const char* what, Judgement judged) const {
    rows.push_back(row_of(claim_, what, judged.verdict, std::move(judged.reason)));
  }

  static const record::Run& first(const CaseResult& c) {
    return std::get<record::Run>(c.rounds().front());
  }
  bool same_tokens() const {
    const record::Run &x = first(claim_), &y = first(now_);
    return x.hypotheses_sha256 == y.hypotheses_sha256 ||
           (x.tokens_sha256 && y.tokens_sha256 && x.tokens_sha256 == y.tokens_sha256);
  }
  /// Returns a figure of the tokens that differs although the tokens are equal; empty if there is
  /// none.
  std::string other_figures() const {
    const record::Run &x = first(claim_), &y = first(now_);
    if (x.tokens_sha256 && y.tokens_sha256 && x.tokens_sha256 != y.tokens_sha256)
      return "the same hypotheses_sha256, and the journal has another tokens_sha256";
    std::vector<const char*> keys = {"tokens.per_second"};
    // Tokens of the references spell words as the scorer writes them.
    if (scorer_of(claim_) == scorer_of(now_)) keys.push_back("tokens.reference_per_second");
    for (const char* key : keys) {
      const auto before = last_value(key, claim_), now = last_value(key, now_);
      if (before && now && std::abs(*before - *now) > 1e-6 * std::abs(*now))
        return fmt::format("the same tokens, and {} is {:.6g}, not {:.6g}", key, *now, *before);
    }
    return scorer_of(claim_) == scorer_of(now_) ? other_counts() : "";
  }
  /// Returns a count of boosted or oracle words that differs although the scorer counted the same
  /// hypotheses; empty if there is none.
  std::string other_counts() const {
    const record::Run &x = first(claim_), &y = first(now_);
    Counts counts;
    if (const auto* before = known(x.boosted), *now = known(y.boosted); before && now) {
      add_boosted(counts, "boosted.", *before, *now);
      if (before->phrases && now->phrases)
        add_boosted(counts, "boosted.phrases.", *before->phrases, *now->phrases);
    }
    const auto *before = known(x.oracle_wer), *now = known(y.oracle_wer);
    // The other hash does not cover the texts of an n-best list.
    if (x.hypotheses_sha256 == y.hypotheses_sha256 && before && now) {
      counts.emplace_back("oracle_wer.substitutions", before->substitutions, now->substitutions);
      counts.emplace_back("oracle_wer.insertions", before->insertions, now->insertions);
      counts.emplace_back("oracle_wer.deletions", before->deletions, now->deletions);
    }
    return first_other(counts);
  }
  /// The name of each count, what the journal has, and what the rerun has.
  using Counts =
      std::vector<std::tuple<std::string, std::optional<int64_t>, std::optional<int64_t>>>;
  static void add_boosted(Counts& counts, const std::string& where, const auto& before,
                          const auto& now) {
    counts.emplace_back(where + "occurrences", before.occurrences, now.occurrences);
    counts.emplace_back(where + "recalled", before.recalled, now.recalled);
    counts.emplace_back(where + "false_alarms", before.false_alarms, now.false_alarms);
  }
  static std::string first_other(const Counts& counts) {
    for (const auto& [name, before, now] : counts) {
      if (before && now && *before != *now)
        return fmt::format("the same tokens, and {} is {}, not {}", name, *now, *before);
    }
    return "";
  }
  /// Returns a count of word or character errors that differs although the rate is the same. `what`
  /// is wer or cer.
  std::string other_errors(std::string_view what) const {
    const record::WordErrors &x = first(claim_).wer, &y = first(now_).wer;
    if (what == "cer")
      return first_other({{"wer.character_errors", x.character_errors, y.character_errors}});
    return first_other({{"wer.substitutions", x.substitutions, y.substitutions},
                        {"wer.insertions", x.insertions, y.insertions},
                        {"wer.deletions", x.deletions, y.deletions},
                        {"wer.reference_words", x.reference_words, y.reference_words}});
  }
  /// Returns the metric of the last round that has it.
  static std::optional<double> last_value(const char* key, const CaseResult& c) {
    const auto values = metric_values(find_metric(key, ""), c.rounds());
    return values.empty() ? std::nullopt : std::optional(values.back());
  }
  static std::optional<double> wer_of(const CaseResult& c) {
    const record::WordErrors* errors = c.summary.word_errors();
    return errors == nullptr || !errors->wer ? std::nullopt : std::optional<double>(*errors->wer);
  }
  /// Journals of earlier releases have no character errors.
  static std::optional<double> cer_of(const CaseResult& c) {
    const record::WordErrors* errors = c.summary.word_errors();
    const Number* cer = errors == nullptr ? nullptr : known(errors->cer);
    return cer == nullptr ? std::nullopt : std::optional<double>(*cer);
  }

  Judgement judge_tokens() const {
    if (!now_.summary.deterministic)
      return {Verdict::correctness, "the rounds of the rerun gave different results"};
    if (const std::string beyond = beyond_rounding(now_.summary);
        !beyond.empty() && beyond_rounding(claim_.summary).empty() && least_ < Grade::different)
      return {Verdict::correctness, "beyond rounding in the rerun: " + beyond};
    if (same_tokens()) {
      if (const std::string why = other_figures(); !why.empty()) return {Verdict::correctness, why};
      const bool same_scores = first(claim_).hypotheses_sha256 == first(now_).hypotheses_sha256;
      return {Verdict::pass, same_scores ? "the same, score bits included"
                                         : "the same tokens and frames, other score bits"};
    }
    if (!first(claim_).tokens_sha256)
      return {Verdict::invalid, "other hypotheses, and no tokens_sha256 that tells how"};
    if (elsewhere_.empty()) {
      return {Verdict::correctness,
              "other tokens or frames than the journal's, by the same program on this machine"};
    }
    if (is_exact() && now_.summary.replay && now_.summary.replay->beyond == 0)
      return {Verdict::pass, "other tokens, every decision of the rerun within rounding"};
    if (!wer_of(claim_) || !wer_of(now_))
      return {Verdict::inconclusive, "other tokens, and no references to judge them by"};
    return {Verdict::pass, "other tokens, as another machine or program may have: see the WER"};
  }

  Judgement judge_grade() const {
    const std::string &before = claim_.summary.grade, &after = now_.summary.grade;
    if (before == after)
      return {Verdict::pass, before.empty() ? "nothing to compare with" : before + " in both"};
    const std::string text =
        fmt::format("{} here, and the journal says {}", after.empty() ? "none" : after,
                    before.empty() ? "none" : before);
    if (before.empty())
      return {Verdict::inconclusive, after + " here, and the journal has none, as after a rescore"};
    if (elsewhere_.empty()) return {Verdict::correctness, text};
    const bool is_grade = !after.empty() && after != "baseline";
    const bool allowed = is_grade && (!is_exact() || grade_of(after) <= least_);
    return {allowed ? Verdict::pass : Verdict::correctness, text};
  }

  /// `what` is wer or cer, given with its rates.
  GateRow errors_row(const char* what, std::optional<double> before,
                     std::optional<double> now) const {
    GateRow row = row_of(claim_, what, Verdict::pass, "");
    row.baseline = before;
    row.current = now;
    if (!row.baseline || !row.current) {
      const bool lost = row.baseline.has_value() != row.current.has_value();
      row.verdict = lost ? Verdict::invalid : Verdict::pass;
      row.reason = lost ? "only one of both has references" : "no references";
      return row;
    }
    if (scorer_of(claim_) != scorer_of(now_)) {
      row.verdict = same_tokens() ? Verdict::pass : Verdict::inconclusive;
      row.reason = fmt::format("{}, now {}: not compared", scorer_of(claim_), scorer_of(now_));
      return row;
    }
    const bool equal = same_tokens();
    row.tolerance = equal ? 0 : find_metric("wer", "").tolerance.value_or(0);
    if (!exceeds(std::abs(*row.current - *row.baseline), *row.tolerance)) {
      if (equal) row.reason = other_errors(what);
      if (!row.reason.empty()) row.verdict = Verdict::correctness;
      return row;
    }
    row.verdict = Verdict::correctness;
    row.reason = fmt::format("{:+.3g} points{}", 100 * (*row.current - *row.baseline),
                             equal ? " with the same tokens" : "");
    return row;
  }

  /// Adds speeds without a verdict.
  void add_speeds(std::vector<GateRow>& rows) const {
    for (const char* key : {"rtfx.total", "rtfx.decode"}) {
      const Metric& metric = find_metric(key, "");
      const auto before = counted_values(metric, claim_.summary),
                 now = counted_values(metric, now_.summary);
      if (before.empty() || now.empty()) continue;
      GateRow& row =
          rows.emplace_back(row_of(claim_, key, Verdict::pass, "for information, not judged"));
      row.baseline = spread_of(before).mean;
      row.current = spread_of(now).mean;
      row.change = runs_ratio({before}, now);
      row.is_fair = false;
    }
  }

  const CaseResult &claim_, &now_;
  Grade least_;
  std::vector<std::string> pointless_;  // differences that make a comparison pointless
  std::vector<std::string> elsewhere_;  // differences that may change rounding and speed
};

}  // namespace

std::vector<GateRow> compare_claims(const ResultSet& claims, const ResultSet& rerun) {
  // Speeds of the same program on this machine are judged together.
  ResultSet before, now;
  std::map<std::string, std::vector<GateRow>> rows;
  for (const CaseResult& c : claims.cases) {
    const CaseResult* found = rerun.find(c.name());
    if (found == nullptr) {
      rows[c.name()] = {row_of(c, "case", Verdict::invalid, "missing in the rerun")};
      continue;
    }
    const Claim claim(c, *found);
    rows[c.name()] = claim.rows();
    if (!claim.is_here()) continue;
    before.cases.push_back(c);
    now.cases.push_back(*found);
  }
  if (!before.cases.empty()) {
    const std::set<std::string> allowed = {"scorer"};
    for (GateRow& row : gate(std::span(&before, 1), now, {.allowed = allowed})) {
      if (row.change) rows[row.case_name].push_back(std::move(row));
    }
  }
  std::vector<GateRow> all;
  for (const CaseResult& c : claims.cases)
    for (GateRow& row : rows[c.name()]) all.push_back(std::move(row));
  return all;
}

Judgement judge_caching(const Interval& ratio) {
  constexpr double kLimit = 1 + kCachingLimit;
  const std::string limit = fmt::format("{:.0f} %", 100 * kCachingLimit);
  if (ratio.low > kLimit) {
    return {Verdict::invalid,
            fmt::format("it decodes utterances that it has seen {:.3g} times as fast as others: it "
                        "remembers them, so its times are not those of decoding",
                        ratio.estimate)};
  }
  if (ratio.high <= kLimit)
    return {Verdict::pass, "utterances that it has seen take as long as others"};
  return {
      Verdict::inconclusive,
      fmt::format("the interval holds the limit of {}: verify again on a quiet machine", limit)};
}

Interval graver_ratio(const Interval& a, const Interval& b) {
  const Verdict of_a = judge_caching(a).verdict, of_b = judge_caching(b).verdict;
  if (of_a == of_b) return a.low > b.low ? a : b;
  return worse(of_a, of_b) == of_a ? a : b;
}

}  // namespace rtfx
