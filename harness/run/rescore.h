// `rtfx rescore`: word error rates of stored hypotheses by another scorer.
#pragma once

#include <filesystem>
#include <string>

namespace rtfx {

/// Prints, for each case with hypotheses and references, the word error rate of the journal and the
/// new one. With an `output` folder, writes the journal there again with the new `wer` fields; what
/// it holds of times and exactness stays. Throws UserError for an unknown scorer, a journal without
/// results and one without any hypotheses.
void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output);

}  // namespace rtfx
