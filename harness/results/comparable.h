// Whether two results of a case were measured under the same conditions, as a gate wants them.
#pragma once

#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// A difference between the conditions of two results.
struct ConditionDifference {
  std::string kind;  // one of allowable_differences(); empty for what makes comparing pointless
  std::string text;  // "other libtorch: 2.10.0, now 2.11.0"
};

/// Changes that can be what is to be judged, such as that of LibTorch, where `rtfx gate --allow`
/// names them:
///   libtorch  version of LibTorch, CUDA runtime and cuDNN, which come together
///   driver    version of the CUDA driver
///   encoder   encoder, encoder_graphs: how the encoder is computed and launched
///   scorer    text normaliser and its version; the word error rates are then not compared
const std::vector<std::string>& allowable_differences();

/// Differences between two results of one case name. It compares the machine and its share, model,
/// data, batches and their order, the decoder's options and the files they name, encoder, LibTorch,
/// driver and scorer. It does not compare the revision of rtfx, which a gate judges, nor anything
/// that one of the two journals lacks, such as an option that only one release has.
std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b);

}  // namespace rtfx
