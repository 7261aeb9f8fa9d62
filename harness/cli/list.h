// `rtfx list`: the decoders with their options, or the keys of a configuration.
#pragma once

#include <string>

namespace rtfx {

/// `what`: "decoders" or "config".
void print_list(const std::string& what, bool as_json);

}  // namespace rtfx
