// The paths among the values of a configuration, found by the tables of its options.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "harness/config/document.h"

namespace rtfx {

/// Gets a path, which it may change, and its place ("FILE#/models/0/path").
using VisitPath = std::function<void(const std::string& where, nlohmann::json& path)>;

/// Visits each non-empty text that `object` gives to an option of `table` that is a file. Options
/// may be lists of such texts, or lie in lists of objects. `where` is the place of `object`.
void for_each_path(const std::vector<OptionInfo>& table, const std::string& where,
                   nlohmann::json& object, const VisitPath& visit);

/// Visits the paths of a whole configuration: those of its keys, which `keys` describes, and those
/// among the options of decoders that are registered. `where` is the place of `document`.
void for_each_path_of_document(const std::vector<OptionInfo>& keys, const std::string& where,
                               nlohmann::json& document, const VisitPath& visit);

/// The JSON with every path relative to the file's folder, as it can be written into that folder.
/// `keys` describes the keys of a configuration.
nlohmann::json with_relative_paths(const std::vector<OptionInfo>& keys, const Document& document);

}  // namespace rtfx
