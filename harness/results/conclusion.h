// Conclusions of a run or a comparison, in sentences: which results are wrong, and who won by how
// much.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/results/results.h"
#include "harness/results/summaries.h"
#include "harness/results/verdict.h"

namespace rtfx {

struct Conclusion {
  std::vector<std::string> wrong;  // a sentence for each decoder whose results are wrong
  std::vector<std::string> won;    // a sentence for each model
};

/// Concludes from the decoders of one run. A decoder is wrong if CaseSummary::fault() says so, or
/// if it is exact and makes more word errors than its baseline beyond chance. Wrong and approximate
/// decoders win nothing. For each model, a sentence names the decoder that gains most on its
/// baseline under equal conditions. Decoders without NOISY or suspect rounds come first, then those
/// whose interval excludes 1. The speed is that of decoding, or the total speed if batches overlap.
/// "best of 4" tells of how many gains of the model it is the best.
Conclusion conclude(const Summaries& cases);

/// Returns, for example, "model: label_looping decodes 1.73 times as fast as frame_looping (batch
/// 8, fp32; 95 %: 1.70 to 1.76)." If the interval contains 1, it says "no difference".
std::string speed_sentence(const std::string& subject, const std::string& verb,
                           const std::string& other, const Interval& ratio,
                           const std::string& conditions);

/// Concludes from two runs by the geometric mean over the cases that both hold and that are right
/// in both. All cases share the drift between the two runs. So the interval is as wide as if all
/// their errors were the same one. The sentence says in how many cases either run is NOISY or
/// suspect. Empty if there is no such case.
std::vector<std::string> conclude(const ResultSet& before, const ResultSet& now,
                                  const std::string& before_name, const std::string& now_name);

/// Concludes from the rows of a gate. Rows of cases with wrong results do not count.
std::vector<std::string> conclude(const std::vector<GateRow>& rows);

/// Prints the sentences to stdout, the wrong ones first, in bold red on a terminal.
void print_conclusion(const std::vector<std::string>& wrong, const std::vector<std::string>& won);

}  // namespace rtfx
