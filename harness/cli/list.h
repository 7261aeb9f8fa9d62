// `rtfx list`: the decoders with their options, or the keys of a configuration.
#pragma once

#include <string>

namespace rtfx {

/// `what`: "decoders", "config", the name of a decoder, or a key of the configuration, with its
/// members. Throws UserError for anything else.
void print_list(const std::string& what, bool as_json);

}  // namespace rtfx
