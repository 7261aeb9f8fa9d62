#include "harness/results/stand_in.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace rtfx {
namespace {

/// Manifests that datasets/speak_librispeech.py wrote before it wrote stand_in.txt too: the whole
/// set, and its clips of 7.4, 23 and 77 seconds.
constexpr std::array<std::string_view, 4> kSpokenTestOther = {
    "daef6fd777a6f71cec0eeae76f2bbe00f31d00c8a4118b1e837c8b985b8b82e4",
    "cfcc51068ffcd6e5a4a23d1cf3fde8e593ab8c81d7a4eae38a7fb1b0e354c5ba",
    "b78300ebece0cbd0cd6eda8b626852c7df741db910e9cb779ff5b20e63587698",
    "c8d09419ff5dbf0b154d46fc9d2b30d6b3dc5b5302a39e2d7b5818965e488e89"};

}  // namespace

std::string stand_in_data(const std::string& dataset,
                          const Optional<Nullable<SharedText>>& stand_in,
                          const record::Provenance& provenance) {
  if (stand_in) return std::string(stand_in->value_or(SharedText()));
  if (!provenance.datasets) return "";
  for (const record::DatasetFile& entry : *provenance.datasets) {
    if (entry.id != dataset) continue;
    const bool spoken = entry.sha256 && std::ranges::find(kSpokenTestOther, *entry.sha256) !=
                                            kSpokenTestOther.end();
    const std::string* text = known(entry.stand_in);
    std::string what = text == nullptr ? "" : *text;
    if (!spoken) return what;
    return what + (what.empty() ? "" : ": ") +
           "espeak-ng speech of LibriSpeech test-other's transcripts";
  }
  return "";
}

std::string stand_in_model(const record::Model& model) {
  const SharedText* text = known(model.stand_in);
  return text == nullptr ? "" : std::string(*text);
}

std::vector<std::string> stand_in_marks(const record::Model& model, const std::string& data) {
  std::vector<std::string> marks;
  if (!stand_in_model(model).empty()) marks.emplace_back(kStandInModel);
  if (!data.empty()) marks.emplace_back(kStandInData);
  return marks;
}

std::string name_with_marks(const std::string& name, const std::vector<std::string>& marks) {
  return marks.empty() ? name : fmt::format("{} ({})", name, fmt::join(marks, ", "));
}

}  // namespace rtfx
