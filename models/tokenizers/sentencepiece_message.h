// The parts of a SentencePiece model that a decoder of ids needs.
#pragma once

#include <string>
#include <string_view>

namespace rtfx {

/// The serialised ModelProto `model` with its pieces, its trainer's settings and its normalizer's
/// flags, but without the tables that normalise text before it is split into pieces, and without
/// samples to test that. SentencePiece uses these tables unchecked: with a damaged one it crashed
/// on the samples while it loaded. Throws UserError where `model` is not such a message, has too
/// many pieces, or has a table of its own for text that is put together (a denormalizer).
std::string decoding_part(std::string_view model, std::string_view where);

}  // namespace rtfx
