// Stand-ins for a published set or checkpoint in a result. Every table, page, figure and export
// that shows the result names them.
#pragma once

#include <string>
#include <vector>

#include "harness/results/records.h"

namespace rtfx {

/// The mark of results on audio that stands in for the set that a case names.
constexpr const char* kStandInData = "stand-in data";

/// Describes the audio that stands in for the set of a record (run, stream, failure, profile);
/// empty where none does. Older journals have this in `provenance` alone, and only for fallbacks.
/// There the speech of datasets/speak_test_other.py is known by its manifests' checksums.
std::string stand_in_data(const std::string& dataset,
                          const Optional<Nullable<std::string>>& stand_in,
                          const record::Provenance& provenance);

/// The marks of a case: "random encoder + stand-in decoder" and "stand-in data", where they apply.
/// `data` is the result of stand_in_data().
std::vector<std::string> stand_in_marks(const record::Model& model, const std::string& data);

/// The case's name with its marks behind it, for where a name is all there is.
std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks);

/// Whether the model was timed with random weights (models/synthetic.h).
bool has_synthetic_weights(const record::Model& model);

}  // namespace rtfx
