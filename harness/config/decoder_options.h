// Expands lists in a decoder's options. Each value of a list gives a decoder of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"

namespace rtfx {

struct OptionValues {
  nlohmann::json options;
  /// The values that were taken from the lists, such as "[window=4][lm.alpha=0.2]".
  std::string suffix;
};

/// Expands an option that is a list of values into one set of options for each value. It does the
/// same for a list within an option that is an object. An option whose value is itself a list
/// ("[text, ...]" in `known`, the decoder's table) is not expanded. Throws UserError for an empty
/// list; `where` is the place of `options`.
std::vector<OptionValues> expand_lists(const nlohmann::json& options, const std::string& where,
                                       const std::vector<OptionInfo>& known);

/// Sets the option with a dotted name, such as "lm.alpha".
void set_option(nlohmann::json& options, const std::string& name, nlohmann::json value);

}  // namespace rtfx
