// What a decoder offers that keeps lattices of words.
#pragma once

#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

class LatticeSource {
 public:
  virtual ~LatticeSource() = default;

  /// After Decoder::prepare(): of each row the paths near its best one, within the option
  /// "lattice_beam"; without states where the row holds a NaN or no path gets through. Waits for
  /// the device as decode() does.
  virtual std::vector<WordLattice> lattices(const EncodedBatch& batch) = 0;

  /// Whose words and arcs the lattices are made of.
  virtual const WfstGraph& graph() const = 0;
};

}  // namespace rtfx
