// The claims of a journal that somebody else has made, for `rtfx verify`: whether they agree with
// themselves and with a rerun. Results in, rows with verdicts out.
#pragma once

#include <vector>

#include "harness/results/gate.h"
#include "harness/results/results.h"

namespace rtfx {

/// Judges a journal without a rerun. Failed cases claim nothing. A case is INVALID where it is no
/// measurement (unfit()). It is INVALID, too, where its records contradict themselves
/// (contradiction()), or where its tokens_sha256 is not that of its baseline though its grade says
/// so. CORRECTNESS is a result that the journal itself shows to be wrong (CaseSummary::fault()).
/// Cases without a finding have no row.
std::vector<GateRow> check_records(const ResultSet& journal);

/// Compares each case of `claims` with the case of that name in `rerun`:
///
///   case        INVALID where model, data, batches or options differ, and where the rerun failed
///   results     tokens and frames, by their hashes; with the same ones, the tokens per second of
///               results and references too
///   grade       the grade against the baseline decoder
///   wer, cer    within 0.1 points either way; equal where the tokens are
///   rtfx.total, rtfx.decode   as gate() judges them
///
/// One program on one machine with one set of libraries always returns the same tokens, so other
/// ones are CORRECTNESS there. Anywhere else rounding may decide between tokens. Then replay and
/// word errors judge the results, a row `case` names the differences, and speeds are shown, not
/// judged.
std::vector<GateRow> compare_claims(const ResultSet& claims, const ResultSet& rerun);

/// The share by which a decoder may be faster on utterances that it has decoded before. MLPerf's
/// audit TEST04 allows as much.
constexpr double kCachingLimit = 0.1;

/// `ratio`: seconds of decoding what was never seen / seconds of decoding what was. INVALID where
/// the whole interval is above 1 + kCachingLimit, and INCONCLUSIVE where the interval holds that.
Judgement judge_caching(const Interval& ratio);

}  // namespace rtfx
