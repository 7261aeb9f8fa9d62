// The report of a gate, and facts that the page of a run shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/results.h"
#include "harness/results/verdict.h"

namespace rtfx {

// Writes the rows of a gate for other programs. A CI service shows JUnit XML in its list of tests,
// and Markdown in the summary of a job.

/// Returns {"verdict": the gravest, "rows": [{"case", "what", "verdict", "reason", "baseline_run",
/// "baseline", "current", "change": {"estimate", "low", "high"}, "rounds" (text, empty if it has
/// none), "tolerance", "noise_floor"}]}. Values that a row lacks are null.
nlohmann::json gate_json(const std::vector<GateRow>& rows);

/// Returns a test case for each row, named by its case and the judged figure. A row about one of
/// several baseline runs names that, too. REGRESSED and CORRECTNESS are failures, INVALID and
/// INCONCLUSIVE are errors. With `allow_inconclusive`, INCONCLUSIVE is skipped.
std::string gate_junit(const std::vector<GateRow>& rows, bool allow_inconclusive);

/// Returns the verdict as a heading and a table. The table has the rows that are worse than PASS
/// first. The sentences of conclude() follow, and the other rows are folded.
std::string gate_markdown(const std::vector<GateRow>& rows);

// Facts that the page of a run shows in addition to the records of its journal (plots/report.py).

/// Returns the facts of each case that differs from its baseline decoder:
///   {"case", "baseline", "grade", "first" (the journal's first difference),
///    "texts": number of utterances whose words differ,
///    "utterances": the first of these, [{"id", "reference", "words": [[baseline's word, decoder's
///                  word], ...]}]}
/// Words are aligned with the fewest edits. A word is null if its side has none there. Without the
/// hypotheses of both, "texts" is null, and "utterances" has only the words around the first
/// difference.
nlohmann::json differences(const ResultSet& run, size_t most_utterances);

/// Returns the changes since an earlier run:
///   {"journal", "started", "revision", "changes": [{"key", "from", "to"}] in the provenance,
///    "cases": [{"case", "marks_before", "marks_now", "rounds_before", "rounds_now" (texts),
///              metric: {"before", "now", "change"}}],
///    "failed", "only_before", "only_now": case names, "mark_meanings", "wrong", "won": [text]}
/// "cases" are in both runs, and "failed" are cases that failed in one of them. Only rounds that
/// count are taken. The change of RTFx is a ratio, and that of the WER a difference. Both have the
/// 95 % interval of `rtfx compare`, or null ends if there is none. "mark_meanings" and "wrong" are
/// about the run before, and "won" is about both. The sentences are those of conclude().
nlohmann::json changes_since(const ResultSet& baseline, const ResultSet& run);

}  // namespace rtfx
