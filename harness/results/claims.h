// Checks the claims of a journal that somebody else has made, for `rtfx verify`: whether they agree
// with themselves and with a rerun.
#pragma once

#include <vector>

#include "harness/results/results.h"
#include "harness/results/verdict.h"

namespace rtfx {

/// Judges a journal without a rerun. A case is INVALID for one of three reasons. It is no
/// measurement (unfit()), its records contradict themselves (contradiction()), or its grade claims
/// the tokens of its baseline and its tokens_sha256 is another one. A case has the verdict
/// CORRECTNESS if the journal itself shows that its result is wrong (CaseSummary::fault()). Failed
/// cases claim nothing. Cases without a finding have no row.
std::vector<GateRow> check_records(const ResultSet& journal);

/// Compares each case of `claims` with the case of that name in `rerun`, in these rows:
///   case        INVALID if model, data, batches or options differ, or if the rerun failed
///   results     tokens and frames, by their hashes; if they are equal, also the tokens per second
///               of results and references, and the counts of boosted and oracle words
///   grade       the grade against the baseline decoder
///   wer, cer    within 0.1 points either way; must be equal if the tokens are
///   rtfx.total, rtfx.decode   as gate() judges them
///
/// One program on one machine with one set of libraries always returns the same tokens. There,
/// other tokens are CORRECTNESS. Elsewhere, rounding may decide between tokens. Then replay and
/// word errors judge the results, a row `case` names the differences between the machines, and
/// speeds are shown but not judged.
std::vector<GateRow> compare_claims(const ResultSet& claims, const ResultSet& rerun);

/// The decoder may be faster by this share on utterances that it has decoded before. MLPerf's audit
/// TEST04 allows the same share.
constexpr double kCachingLimit = 0.1;

/// `ratio` is the time to decode new utterances divided by the time to decode known ones. INVALID
/// if the whole interval is above 1 + kCachingLimit, and INCONCLUSIVE if the interval contains it.
Judgement judge_caching(const Interval& ratio);

/// Returns the ratio of an audit that has the graver verdict of judge_caching(). Of equal verdicts,
/// it is the ratio whose interval begins higher.
Interval graver_ratio(const Interval& a, const Interval& b);

}  // namespace rtfx
