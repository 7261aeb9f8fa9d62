#include "harness/results/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

GateRow row_of(const CaseResult& c, const char* what, Verdict verdict, std::string reason) {
  return {c.name(), what, {}, {}, {}, {}, {}, verdict, std::move(reason)};
}

/// Whether two figures of a record agree but for the rounding of sums.
bool agree(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), 1e-9); }

/// The value of a metric in a record; none where it is null or missing.
std::optional<double> figure(const record::Run& run, const char* key) {
  const auto found = run.metrics.find(key);
  return found == run.metrics.end() || !found->second ? std::nullopt
                                                      : std::optional<double>(*found->second);
}

/// How the figures of a record contradict each other; empty where they do not.
std::string contradiction(const record::Run& run) {
  const double audio = run.dataset.audio_seconds, total = run.total_seconds;
  const auto rate = [&](const char* key, double seconds) -> std::string {
    const auto stated = figure(run, key);
    if (!stated || agree(audio / seconds, *stated)) return "";
    return fmt::format("{} is {:.6g}, and audio / seconds is {:.6g}", key, *stated,
                       audio / seconds);
  };
  if (const std::string text = rate("rtfx.total", total); !text.empty()) return text;
  const record::WordErrors& wer = run.wer;
  const auto words = static_cast<double>(wer.reference_words.value_or(0));
  const auto errors = static_cast<double>(wer.substitutions + wer.insertions + wer.deletions);
  if (wer.wer && words > 0 && !agree(errors / words, *wer.wer)) {
    return fmt::format("the WER is {:.6g}, and errors / words is {:.6g}",
                       static_cast<double>(*wer.wer), errors / words);
  }
  // Shards and overlapped batches share their time.
  if (run.shards || run.pipeline) return "";
  double sum = 0;
  for (const auto& [name, region] : run.regions) sum += region.host_seconds;
  if (!agree(sum, total))
    return fmt::format("total_seconds is {:.6g}, and the regions add up to {:.6g}", total, sum);
  const auto decode = run.regions.find("decode");
  return decode == run.regions.end() ? "" : rate("rtfx.decode", decode->second.host_seconds);
}

/// The first contradiction in the rounds of a case.
std::string contradiction(const CaseResult& c) {
  std::set<std::string> hashes;
  bool deterministic = true;
  for (const record::Round& round : c.rounds()) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run == nullptr) continue;
    if (const std::string text = contradiction(*run); !text.empty())
      return fmt::format("round {}: {}", run->round, text);
    hashes.insert(run->hypotheses_sha256);
    deterministic = deterministic && run->deterministic.value_or(true);
  }
  return deterministic && hashes.size() > 1
             ? "`deterministic` is true, and the hashes of its rounds differ"
             : "";
}

}  // namespace

std::vector<GateRow> check_records(const ResultSet& journal) {
  std::vector<GateRow> rows;
  for (const CaseResult& c : journal.cases) {
    if (c.summary.failure) continue;
    if (const std::string why = unfit(c); !why.empty())
      rows.push_back(row_of(c, "case", Verdict::invalid, "no measurement: " + why));
    if (const std::string why = contradiction(c); !why.empty())
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

/// A claim beside its rerun.
class Claim {
 public:
  Claim(const CaseResult& claim, const CaseResult& now)
      : claim_(claim), now_(now), least_(required_grade(claim, now)) {
    for (const ConditionDifference& difference : condition_differences(claim, now)) {
      if (difference.kind.empty()) {
        pointless_.push_back(difference.text);
      } else if (difference.kind != "scorer") {  // which only the WER depends on
        elsewhere_.push_back(difference.text);
      }
    }
    const std::string before = build_of(claim.provenance()), after = build_of(now.provenance());
    if (before != after)
      elsewhere_.push_back(fmt::format("other revision of rtfx: {}, now {}", before, after));
  }

  /// Whether speeds may be judged.
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
    rows.push_back(wer_row());
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
  static std::optional<double> wer_of(const CaseResult& c) {
    const record::WordErrors* errors = c.summary.word_errors();
    return errors == nullptr || !errors->wer ? std::nullopt : std::optional<double>(*errors->wer);
  }

  Judgement judge_tokens() const {
    if (!now_.summary.deterministic)
      return {Verdict::correctness, "the rounds of the rerun gave different results"};
    if (const std::string beyond = beyond_rounding(now_.summary);
        !beyond.empty() && beyond_rounding(claim_.summary).empty() && least_ < Grade::different)
      return {Verdict::correctness, "beyond rounding in the rerun: " + beyond};
    if (first(claim_).hypotheses_sha256 == first(now_).hypotheses_sha256)
      return {Verdict::pass, "the same, score bits included"};
    if (same_tokens()) return {Verdict::pass, "the same tokens and frames, other score bits"};
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
    if (elsewhere_.empty()) return {Verdict::correctness, text};
    const bool is_grade = !after.empty() && after != "baseline";
    const bool allowed = is_grade && (!is_exact() || grade_of(after) <= least_);
    return {allowed ? Verdict::pass : Verdict::correctness, text};
  }

  GateRow wer_row() const {
    GateRow row = row_of(claim_, "wer", Verdict::pass, "");
    row.baseline = wer_of(claim_);
    row.current = wer_of(now_);
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
    constexpr double kRounding = 1e-9;
    if (std::abs(*row.current - *row.baseline) <= *row.tolerance + kRounding) return row;
    row.verdict = Verdict::correctness;
    row.reason = fmt::format("{:+.3g} points{}", 100 * (*row.current - *row.baseline),
                             equal ? " with the same tokens" : "");
    return row;
  }

  /// Speeds for information.
  void add_speeds(std::vector<GateRow>& rows) const {
    for (const char* key : {"rtfx.total", "rtfx.decode"}) {
      const Metric& metric = find_metric(key, "");
      const auto before = counted_values(metric, claim_.summary),
                 now = counted_values(metric, now_.summary);
      if (before.empty() || now.empty()) continue;
      GateRow& row =
          rows.emplace_back(row_of(claim_, key, Verdict::pass, "for information, not judged"));
      row.baseline = summarize(before).mean;
      row.current = summarize(now).mean;
      row.change = runs_ratio({before}, now);
      row.is_fair = false;
    }
  }

  const CaseResult &claim_, &now_;
  Grade least_;
  std::vector<std::string> pointless_;  // differences that leave nothing to compare
  std::vector<std::string> elsewhere_;  // those by which rounding and speed may differ
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

}  // namespace rtfx
