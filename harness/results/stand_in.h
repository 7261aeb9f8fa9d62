// Stand-ins for a published set or checkpoint in a result. Every table, page, figure and export
// that shows the result names them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rtfx {

/// The mark of results on audio that stands in for the set that a case names.
constexpr const char* kStandInData = "stand-in data";

/// The mark of results of a checkpoint that stands in for another one (models/widen_checkpoint.py).
constexpr const char* kStandInModel = "stand-in model";

/// The mark in older journals of a model that was timed with random weights, while its decoder read
/// the frames of a small trained model.
constexpr const char* kSyntheticLabel = "random encoder + stand-in decoder";

/// Says from what and how the checkpoint of a record was made where it stands in for another one;
/// empty where it was trained.
std::string stand_in_model(const nlohmann::json& record);

/// Describes the audio of a record (run, stream, failure) that stands in for its set; empty where
/// it does not. Older journals have this in `provenance` alone, and only for fallbacks. There the
/// speech of datasets/speak_test_other.py is known by its manifests' checksums.
std::string stand_in_data(const nlohmann::json& record, const nlohmann::json& provenance);

/// The marks of a record's case: kSyntheticLabel, kStandInModel and kStandInData, where they apply.
/// `data` is the result of stand_in_data().
std::vector<std::string> stand_in_marks(const nlohmann::json& record, const std::string& data);

/// The case's name with its marks behind it, for where a name is all there is.
std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks);

/// Whether the record's model was timed with random weights.
bool has_synthetic_weights(const nlohmann::json& record);

}  // namespace rtfx
