// Reads a binary language model of two tokens, and asks it for every state and token.
#include <ATen/ATen.h>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  constexpr int64_t kVocabulary = 2;
  rtfx::repair_checksum(bytes, 104, 168);
  const rtfx::MemoryFile file(bytes);
  const rtfx::NgramLm lm = rtfx::read_binary_lm(file.path(), kVocabulary, "", 1 << 24);
  const at::Tensor states = at::arange(lm.arrays().context.size(0), at::kInt);
  lm.advance(states);
  lm.next_states(states, at::ones({states.size(0)}, at::kLong));
}
