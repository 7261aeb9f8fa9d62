// `rtfx rescore`: word error rates of stored hypotheses by another scorer.
#pragma once

#include <filesystem>
#include <string>

namespace rtfx {

/// Prints, for each case with hypotheses and references, the word error rate of the journal and the
/// new one. Cases without hypotheses are named on standard error. With an `output` folder, writes
/// the journal there again, whole or not at all. It then has the new `wer` fields and the new
/// scorer in the configuration, and what it holds of times and exactness stays. Throws UserError
/// for an unknown scorer, a journal without results and one without any hypotheses. With `output`
/// it also throws for a folder that holds a journal, and where the hypotheses of a case are
/// missing.
void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output);

}  // namespace rtfx
