// Reads a SentencePiece model, and the text of every piece.
#include "models/tokenizers/sentencepiece.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  const auto tokenizer = rtfx::sentencepiece_tokenizer(bytes, "fuzz");
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer->size(); ++id) ids.push_back(id);
  tokenizer->text(ids);
}
