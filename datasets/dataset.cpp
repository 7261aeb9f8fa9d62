#include "datasets/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "datasets/audio_files.h"
#include "datasets/librispeech.h"
#include "datasets/manifest.h"
#include "datasets/media.h"

namespace rtfx {

namespace {

std::string place_of(const DatasetSource& source) { return fmt::format("dataset '{}'", source.id); }

/// Returns a text that identifies the files. With names alone, two different recordings of the same
/// name would be equal.
std::string names_and_sizes(const std::vector<Utterance>& utterances) {
  std::string text;
  for (const auto& utterance : utterances) {
    text += fmt::format("{}\t{}\n", utterance.id, std::filesystem::file_size(utterance.audio));
  }
  return text;
}

/// Returns the set that datasets/prepare_dataset.py writes into a folder of this name. Empty for
/// others.
std::string prepared_set(const std::filesystem::path& folder) {
  static const std::map<std::string, std::string> sets = {
      {"librispeech", "librispeech"}, {"spgi", "spgispeech"},
      {"earnings22", "earnings22"},   {"ami", "ami"},
      {"europarl", "europarl"},       {"slurp", "slurp"}};
  const auto found = sets.find(folder.filename().string());
  return found == sets.end() ? "" : found->second;
}

/// Throws UserError where the manifest does not exist.
void require_manifest(const std::string& manifest) {
  const std::filesystem::path path = manifest;
  if (std::filesystem::exists(path)) return;
  const std::string folder = path.parent_path().string();
  if (const std::string set = prepared_set(folder); !set.empty()) {
    throw UserError(
        manifest, "no such file",
        fmt::format("`.venv/bin/python datasets/prepare_dataset.py {} SOURCE --output {}` makes it "
                    "from the recordings; or name other data with --set datasets.N.manifest=FILE, "
                    "such as those of datasets/speak_librispeech.py",
                    set, folder));
  }
  // Synthetic speech can stand in for these sets, in any folder.
  const std::string name = path.parent_path().filename().string();
  const bool clean = name.find("test_clean") != std::string::npos;
  const bool spoken = clean || name.find("test_other") != std::string::npos;
  throw UserError(
      manifest, "no such file",
      fmt::format("`.venv/bin/python datasets/speak_librispeech.py {}{}` makes {}; or name other "
                  "data with --set datasets.N.manifest=FILE",
                  spoken ? folder : "data/test_other", clean ? " --set test-clean" : "",
                  spoken ? "it" : "spoken test data"));
}

/// Returns the first line of stand_in.txt in the folder. Empty without such a file.
std::string stand_in_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "stand_in.txt";
  if (!std::filesystem::exists(file)) return "";
  const std::string text = read_text(file);
  const std::string line = text.substr(0, text.find_first_of("\r\n"));
  if (line.empty())
    throw UserError(file.string(), "its first line is empty", "say in it what the audio is");
  return line;
}

std::string stand_in_of(const DatasetSource& source) {
  if (!source.stand_in.empty()) return source.stand_in;
  if (const std::filesystem::path manifest = source.manifest; !manifest.empty())
    return stand_in_in(std::filesystem::is_directory(manifest) ? manifest : manifest.parent_path());
  return source.librispeech.empty() ? "" : stand_in_in(source.librispeech);
}

}  // namespace

Dataset load_dataset(const DatasetSource& source) {
  const int kinds = !source.manifest.empty() + !source.librispeech.empty() + !source.files.empty();
  if (kinds != 1) {
    throw UserError(place_of(source), fmt::format("names {} sources of audio", kinds),
                    "give exactly one of manifest, librispeech, files");
  }
  if (source.limit < 0) {
    throw UserError(place_of(source), fmt::format("limit is {}", source.limit),
                    "give 0 (all) or more");
  }

  Dataset dataset{.id = source.id, .utterances = {}, .sha256 = {}, .stand_in = {}};
  std::string identity;
  if (const std::string& manifest = source.manifest; !manifest.empty()) {
    require_manifest(manifest);
    if (std::filesystem::is_directory(manifest)) {
      dataset.utterances = read_librispeech(manifest, identity, dataset.notices);
    } else {
      identity = read_manifest_text(manifest);
      dataset.utterances = parse_manifest(manifest, identity);
    }
  } else if (!source.librispeech.empty()) {
    dataset.utterances = read_librispeech(source.librispeech, identity, dataset.notices);
  } else {
    dataset.utterances = list_audio_files(source.files, place_of(source), dataset.notices);
    identity = names_and_sizes(dataset.utterances);
  }
  for (const double seconds : source.seconds)
    if (seconds > 0 || source.seconds.size() > 1) identity += fmt::format("\tcut to {} s", seconds);
  dataset.sha256 = sha256(identity);
  dataset.stand_in = stand_in_of(source);

  const auto limit = static_cast<size_t>(source.limit);
  if (limit > 0 && limit < dataset.utterances.size()) dataset.utterances.resize(limit);
  for (size_t i = 0; i < dataset.utterances.size(); ++i) {
    Utterance& utterance = dataset.utterances[i];
    const double wanted = source.seconds.empty() ? 0 : source.seconds[i % source.seconds.size()];
    if (wanted > 0) {
      utterance.seconds = utterance.cut_seconds = wanted;
      utterance.text.reset();  // it does not match the audio any more
    }
    if (utterance.seconds == 0)
      utterance.seconds = std::max(0.0, media_seconds(utterance.audio) - utterance.segment.offset);
  }
  return dataset;
}

Audio read_utterance(const Utterance& utterance) {
  Audio audio = read_media(utterance.audio, kSampleRate,
                           {utterance.segment.channel, utterance.segment.track});
  cut(audio, utterance.segment, utterance.where);
  if (utterance.cut_seconds == 0) return audio;
  const size_t own = audio.samples.size();
  audio.samples.resize(
      static_cast<size_t>(std::llround(utterance.cut_seconds * audio.sample_rate)));
  for (size_t i = own; i < audio.samples.size(); ++i) audio.samples[i] = audio.samples[i - own];
  return audio;
}

}  // namespace rtfx
