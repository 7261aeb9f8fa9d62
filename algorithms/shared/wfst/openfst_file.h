// Reads graphs that OpenFst and Kaldi wrote. OpenFst itself trusts its files: with a damaged one it
// ends the process or reads out of bounds. So this project has a reader of its own.
#pragma once

#include <filesystem>

#include "algorithms/shared/wfst/composition.h"

namespace rtfx {

/// Reads a file of OpenFst with tropical weights (StdArc), of type vector or const, and skips its
/// symbol tables. Throws UserError, also for a negative label and for a state out of bounds.
TransducerArcs read_openfst(const std::filesystem::path& path);

}  // namespace rtfx
