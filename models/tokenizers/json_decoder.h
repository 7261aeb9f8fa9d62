// The decoders of a tokenizer.json: how pieces become text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Rewrites a list of pieces; the text is what is left of them, side by side.
using JsonDecoder = std::function<void(std::vector<std::string>& pieces)>;

/// Implements the decoders of Hugging Face's tokenizers library 0.23: Metaspace, Replace of a
/// string, ByteFallback, Fuse, Strip, WordPiece, and Sequence of these. Null puts a space between
/// pieces. Throws UserError for any other, and nlohmann::json::exception for a wrong type.
JsonDecoder json_decoder(const nlohmann::json& decoder, std::string_view where);

}  // namespace rtfx
