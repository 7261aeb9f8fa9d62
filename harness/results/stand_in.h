// Stand-ins for a published set or checkpoint in a result. Every table, page, figure and export
// that shows the result names them.
#pragma once

#include <string>
#include <vector>

#include "harness/results/records.h"

namespace rtfx {

/// The mark of results on audio that stands in for the set that a case names.
constexpr const char* kStandInData = "stand-in data";

/// The mark of results of a checkpoint that stands in for another one (models/widen_checkpoint.py).
constexpr const char* kStandInModel = "stand-in model";

/// Says from which checkpoint a stand-in was made, and how. Empty for a trained checkpoint.
std::string stand_in_model(const record::Model& model);

/// Returns what the audio of a record is, if it stands in for the set that the record names (run,
/// stream, failure, profile). Empty if it does not. Older journals say this only in `provenance`,
/// and only for fallbacks. In these, the speech of datasets/speak_librispeech.py is recognised by
/// the checksums of its manifests.
std::string stand_in_data(const std::string& dataset,
                          const Optional<Nullable<SharedText>>& stand_in,
                          const record::Provenance& provenance);

/// Returns the marks of a case: kStandInModel and kStandInData, as far as they apply. `data` is the
/// result of stand_in_data().
std::vector<std::string> stand_in_marks(const record::Model& model, const std::string& data);

/// Returns the case's name followed by its marks, for places that show only a name.
std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks);

}  // namespace rtfx
