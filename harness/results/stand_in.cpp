#include "harness/results/stand_in.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace rtfx {
namespace {

using nlohmann::json;

/// Manifests that datasets/speak_test_other.py wrote before it wrote stand_in.txt too: the whole
/// set, and its clips of 7.4, 23 and 77 seconds.
constexpr std::array<std::string_view, 4> kSpokenTestOther = {
    "daef6fd777a6f71cec0eeae76f2bbe00f31d00c8a4118b1e837c8b985b8b82e4",
    "cfcc51068ffcd6e5a4a23d1cf3fde8e593ab8c81d7a4eae38a7fb1b0e354c5ba",
    "b78300ebece0cbd0cd6eda8b626852c7df741db910e9cb779ff5b20e63587698",
    "c8d09419ff5dbf0b154d46fc9d2b30d6b3dc5b5302a39e2d7b5818965e488e89"};

}  // namespace

std::string stand_in_data(const json& record, const json& provenance) {
  const json dataset = record.value("dataset", json::object());
  if (dataset.contains("stand_in"))
    return dataset["stand_in"].is_string() ? dataset["stand_in"].get<std::string>() : "";
  for (const json& entry : provenance.value("datasets", json::array())) {
    if (entry.at("id") != dataset.value("id", json())) continue;
    const std::string checksum = entry.value("sha256", "");
    const bool spoken = std::ranges::find(kSpokenTestOther, checksum) != kSpokenTestOther.end();
    const json text = entry.value("stand_in", json());
    std::string what = text.is_string() ? text.get<std::string>() : "";
    if (!spoken) return what;
    return what + (what.empty() ? "" : ": ") +
           "espeak-ng speech of LibriSpeech test-other's transcripts";
  }
  return "";
}

std::string stand_in_model(const json& record) {
  const json text = record.value("/model/stand_in"_json_pointer, json());
  return text.is_string() ? text.get<std::string>() : "";
}

std::vector<std::string> stand_in_marks(const json& record, const std::string& data) {
  std::vector<std::string> marks;
  if (has_synthetic_weights(record)) marks.emplace_back(kSyntheticLabel);
  if (!stand_in_model(record).empty()) marks.emplace_back(kStandInModel);
  if (!data.empty()) marks.emplace_back(kStandInData);
  return marks;
}

std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks) {
  return marks.empty() ? name : fmt::format("{} ({})", name, fmt::join(marks, ", "));
}

bool has_synthetic_weights(const json& record) {
  return record.value("/model/weights"_json_pointer, "") == "synthetic";
}

}  // namespace rtfx
