// A decoder's options as a configuration gives them, before the decoder reads them: lists that
// stand for several decoders.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"

namespace rtfx {

struct OptionValues {
  nlohmann::json options;
  std::string suffix;  // "[window=4][lm.alpha=0.2]": what was taken of each list
};

/// An option that is a list of values stands for one set of options per value. So does such a list
/// in an option that is an object. An option that is a list itself ("[text, ...]" in `known`, the
/// decoder's table) does not. Throws UserError for an empty list; `where` names `options`.
std::vector<OptionValues> expand_lists(const nlohmann::json& options, const std::string& where,
                                       const std::vector<OptionInfo>& known);

/// Sets the option of that dotted name ("lm.alpha").
void set_option(nlohmann::json& options, const std::string& name, nlohmann::json value);

}  // namespace rtfx
