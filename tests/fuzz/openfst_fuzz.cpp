// Reads a graph of OpenFst, and makes a decoding graph from it.
#include "algorithms/shared/wfst/graph.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  const rtfx::MemoryFile file(bytes);
  rtfx::WfstGraph::from(rtfx::read_openfst(file.path()), 2, {"A", "AB"}, "imported", "", "fuzz");
}
