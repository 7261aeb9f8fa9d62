// Contextual biasing that is asked for in one utterance, beside the decoder's options.
#pragma once

#include <string>
#include <vector>

#include "base/phrases.h"

namespace rtfx {

struct BiasRequest {
  std::vector<Phrase> phrases;       // boosted beside those of the decoder's options
  std::vector<std::string> allowed;  // scripts, ranges, characters (models/tokenizers/allowed.h),
                                     // in place of the decoder's; empty: the decoder's
  std::string where;                 // of `allowed`, for errors

  bool empty() const { return phrases.empty() && allowed.empty(); }
};

}  // namespace rtfx
