#include "models/tokenizers/tokenizer.h"

#include "base/error.h"
#include "models/tokenizers/punctuation.h"

namespace rtfx {

std::string Tokenizer::text(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) RTFX_CHECK(id >= 0 && id < size(), "a token id without a piece");
  return without_space_before(join(ids), marks_);
}

std::vector<int32_t> Tokenizer::encode(std::string_view) const { return {}; }

}  // namespace rtfx
