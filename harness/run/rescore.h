// `rtfx rescore`: computes word error rates of stored hypotheses with another scorer.
#pragma once

#include <filesystem>
#include <string>

namespace rtfx {

/// Prints the word error rate of the journal and the new one for each case with hypotheses and
/// references. Names cases without hypotheses on standard error.
///
/// With an `output` folder, also copies the hypotheses there, and then writes a copy of the
/// journal, either whole or not at all. The copy has the new `wer` fields, and the new scorer in
/// its configuration. Its times are those of the journal. Grades that follow from words are
/// computed again, or become null if the stored texts do not tell them. The copy lacks `boosted`,
/// `oracle_wer`, and an `isolated` with such a grade. It also lacks the `quality` of streams, and
/// the rounds that do not count: those under superseded result keys and those of failed cases.
///
/// Throws UserError for an unknown scorer, for a journal without results, and for a journal without
/// any hypotheses. With `output`, it also throws if that folder holds a journal, or if the
/// hypotheses of a case are missing.
void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output);

}  // namespace rtfx
