#include "base/utf8.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {

size_t valid_utf8(std::string_view text) {
  size_t valid = 0;
  for (size_t at = 0; at < text.size(); valid = at)
    if (next_code_point(text, at) < 0) break;
  return valid;
}

void require_utf8(std::string_view text, std::string_view where) {
  const size_t valid = valid_utf8(text);
  if (valid == text.size()) return;
  throw UserError(where,
                  fmt::format("is not UTF-8: byte {} is 0x{:02x}", valid + 1,
                              static_cast<unsigned char>(text[valid])),
                  "save it as UTF-8; `iconv -f LATIN1 -t UTF-8` converts Latin-1");
}

}  // namespace rtfx
