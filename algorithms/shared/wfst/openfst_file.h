// Graphs that OpenFst and Kaldi wrote. Read here rather than by OpenFst, which trusts its files: a
// damaged one ends the process or is searched out of bounds.
#pragma once

#include <filesystem>

#include "algorithms/shared/wfst/composition.h"

namespace rtfx {

/// A file of OpenFst with tropical weights (StdArc), of type vector or const; tables of symbols in
/// it are passed over. Labels are not negative, states are within bounds. Throws UserError.
TransducerArcs read_openfst(const std::filesystem::path& path);

}  // namespace rtfx
