// The keys of a configuration as a table: names, ranges, defaults and help stand there alone.
#pragma once

#include "base/options.h"
#include "harness/config/config.h"

namespace rtfx {

/// Reads each key by itself; what several of them must fulfil together is parse_config()'s.
const OptionTable<Config>& config_keys();

}  // namespace rtfx
