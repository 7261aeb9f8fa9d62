// Facts that reports state in sentences, and the report of a gate.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/gate.h"
#include "harness/results/results.h"

namespace rtfx {

// The gate's rows for other programs: JSON, JUnit XML for a continuous integration's list of tests,
// Markdown for its summary of a job.

/// {"verdict": the gravest, "rows": [{"case", "what", "verdict", "reason", "baseline", "current",
/// "change": {"estimate", "low", "high"}, "rounds" (text, empty where it has none), "tolerance",
/// "noise_floor"}]}; null for what a row lacks.
nlohmann::json gate_json(const std::vector<GateRow>& rows);

/// A test case for each row, by the name of the case and of what was judged: a failure for
/// REGRESSED and CORRECTNESS, an error for INVALID and INCONCLUSIVE. `allow_inconclusive`: that one
/// is skipped.
std::string gate_junit(const std::vector<GateRow>& rows, bool allow_inconclusive);

/// The verdict as a heading, then a table: what is worse than PASS first, the sentences of
/// conclude(), and the rest folded in.
std::string gate_markdown(const std::vector<GateRow>& rows);

// Facts that the page of a run shows beside the records of its journal (plots/report.py).

/// Facts of each case that differs from its baseline decoder:
///   {"case", "baseline", "grade", "first" (the journal's first difference),
///    "texts": number of utterances whose words differ,
///    "utterances": the first of these, [{"id", "reference", "words": [[baseline's word, decoder's
///                  word], ...]}]}
/// Words are aligned with as few edits as possible; a word is null where one side has none. Without
/// the hypotheses of both, "texts" is null, and "utterances" holds only the words around the first
/// difference.
nlohmann::json differences(const ResultSet& run, size_t most_utterances);

/// {"journal", "started", "revision", "changes": [{"key", "from", "to"}] in the provenance,
///  "cases": [{"case", "marks_before", "marks_now", "rounds_before", "rounds_now" (texts),
///             metric: {"before", "now", "change"}}],
///  "failed", "only_before", "only_now": case names, "mark_meanings", "wrong", "won": [text]}
/// "cases" are in both runs, and "failed" are those that failed in one of both. The rounds are
/// those that count. The change of RTFx is a ratio, that of the WER a difference. Both have the
/// 95 % interval of `rtfx compare`, or null ends where there is none. "mark_meanings" and "wrong"
/// are of the run before, "won" is of both. Sentences are those of conclude().
nlohmann::json changes_since(const ResultSet& baseline, const ResultSet& run);

}  // namespace rtfx
