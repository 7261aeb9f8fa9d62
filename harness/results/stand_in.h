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

/// The mark in older journals of a model that was timed with random weights, while its decoder read
/// the frames of a small trained model.
constexpr const char* kSyntheticLabel = "random encoder + stand-in decoder";

/// Says from what and how a checkpoint was made that stands in for another one; empty where it was
/// trained.
std::string stand_in_model(const record::Model& model);

/// Describes the audio that stands in for the set of a record (run, stream, failure, profile);
/// empty where none does. Older journals have this in `provenance` alone, and only for fallbacks.
/// There the speech of datasets/speak_librispeech.py is known by its manifests' checksums.
std::string stand_in_data(const std::string& dataset,
                          const Optional<Nullable<SharedText>>& stand_in,
                          const record::Provenance& provenance);

/// The marks of a case: kSyntheticLabel, kStandInModel and kStandInData, where they apply. `data`
/// is the result of stand_in_data().
std::vector<std::string> stand_in_marks(const record::Model& model, const std::string& data);

/// The case's name with its marks behind it, for where a name is all there is.
std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks);

/// Whether the model was timed with random weights.
bool has_synthetic_weights(const record::Model& model);

}  // namespace rtfx
