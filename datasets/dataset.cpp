#include "datasets/dataset.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/sha256.h"
#include "datasets/audio.h"
#include "datasets/audio_files.h"
#include "datasets/librispeech.h"
#include "datasets/manifest.h"
#include "datasets/utterance_list.h"

namespace rtfx {
namespace {

/// The names alone would call two recordings of the same name equal.
std::string names_and_sizes(const std::vector<Utterance>& utterances) {
  std::string text;
  for (const auto& utterance : utterances) {
    text += fmt::format("{}\t{}\n", utterance.id, std::filesystem::file_size(utterance.audio));
  }
  return text;
}

/// The manifest to read: the fallback where the manifest itself is absent.
std::string present_manifest(const DatasetSource& source) {
  if (source.fallback.empty() || std::filesystem::exists(source.manifest)) return source.manifest;
  if (std::filesystem::exists(source.fallback)) return source.fallback;
  throw UserError(source.manifest,
                  fmt::format("no such file, and neither is its fallback {}", source.fallback),
                  "put one of them there, or name another with --set datasets.N.manifest");
}

/// The first line of stand_in.txt in the folder; empty without such a file.
std::string stand_in_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "stand_in.txt";
  if (!std::filesystem::exists(file)) return "";
  const std::string text = read_text_file(file);
  const std::string line = text.substr(0, text.find_first_of("\r\n"));
  if (line.empty())
    throw UserError(file.string(), "its first line is empty", "say in it what the audio is");
  return line;
}

/// `manifest`: the one that was read; empty for other kinds.
std::string stand_in_of(const DatasetSource& source, const std::filesystem::path& manifest) {
  if (!manifest.empty() && manifest != source.manifest) {
    const std::string what = stand_in_in(manifest.parent_path());
    return manifest.string() + (what.empty() ? "" : ": " + what);
  }
  if (!source.stand_in.empty()) return source.stand_in;
  if (!manifest.empty()) return stand_in_in(manifest.parent_path());
  return source.librispeech.empty() ? "" : stand_in_in(source.librispeech);
}

}  // namespace

Dataset load_dataset(const DatasetSource& source) {
  const int kinds = !source.manifest.empty() + !source.librispeech.empty() + !source.files.empty();
  if (kinds != 1) {
    throw UserError(fmt::format("dataset '{}'", source.id),
                    fmt::format("names {} sources of audio", kinds),
                    "give exactly one of manifest, librispeech, files");
  }
  if (source.limit < 0) {
    throw UserError(fmt::format("dataset '{}'", source.id),
                    fmt::format("limit is {}", source.limit), "give 0 (all) or more");
  }

  Dataset dataset{.id = source.id, .utterances = {}, .sha256 = {}, .fallback = {}, .stand_in = {}};
  std::string identity, manifest;
  if (!source.manifest.empty()) {
    manifest = present_manifest(source);
    if (manifest != source.manifest) dataset.fallback = manifest;
    if (std::filesystem::is_directory(manifest)) {
      dataset.utterances = read_librispeech(manifest, identity);
    } else {
      identity = read_text_file(manifest);
      dataset.utterances = parse_manifest(manifest, identity);
    }
  } else if (!source.librispeech.empty()) {
    dataset.utterances = read_librispeech(source.librispeech, identity);
  } else {
    dataset.utterances = list_audio_files(source.files);
    identity = names_and_sizes(dataset.utterances);
  }
  if (source.seconds > 0) identity += fmt::format("\tcut to {} s", source.seconds);
  dataset.sha256 = sha256(identity);
  dataset.stand_in = stand_in_of(source, manifest);

  const auto limit = static_cast<size_t>(source.limit);
  if (limit > 0 && limit < dataset.utterances.size()) dataset.utterances.resize(limit);
  for (auto& utterance : dataset.utterances) {
    if (source.seconds > 0) {
      utterance.seconds = utterance.cut_seconds = source.seconds;
      utterance.text.reset();  // it says more, or less
    }
    if (utterance.seconds == 0) utterance.seconds = audio_seconds(utterance.audio);
  }
  return dataset;
}

Audio read_utterance(const Utterance& utterance) {
  Audio audio = read_audio(utterance.audio);
  cut(audio, utterance.segment, utterance.where);
  if (utterance.cut_seconds == 0) return audio;
  const size_t own = audio.samples.size();
  audio.samples.resize(
      static_cast<size_t>(std::llround(utterance.cut_seconds * audio.sample_rate)));
  for (size_t i = own; i < audio.samples.size(); ++i) audio.samples[i] = audio.samples[i - own];
  return audio;
}

}  // namespace rtfx
