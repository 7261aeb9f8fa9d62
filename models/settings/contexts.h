// How far an encoder's attention sees: NeMo's att_context_size, and choosing another one.
#pragma once

#include <string>
#include <vector>

#include "models/checkpoint/config.h"

namespace rtfx {

/// Makes `context` that of the encoder, as NeMo's set_default_att_context_size() does:
///   regular style and local attention: [left, right] frames;
///   chunked_limited: [left, right], chunks of right + 1 frames, `left` rounded down to whole
///   chunks; chunked_limited_with_rc: [left, chunk, right] frames, or [-1, -1, -1] for everything.
/// -1 = all, where NeMo means that by it. Any context of the right form will do, not only those of
/// EncoderConfig::contexts: which ones a model was trained for, only its maker knows. Throws
/// UserError otherwise; `where` names the setting in it.
void select_context(ModelConfig& config, const std::vector<int64_t>& context,
                    const std::string& where);

}  // namespace rtfx
