#include "datasets/dataset.h"

#include <fmt/format.h>

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

  Dataset dataset{.id = source.id, .utterances = {}, .sha256 = {}, .stand_in = {}};
  std::string identity;
  if (!source.manifest.empty()) {
    const std::string manifest = present_manifest(source);
    if (manifest != source.manifest) dataset.stand_in = manifest;
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
  dataset.sha256 = sha256(identity);

  const auto limit = static_cast<size_t>(source.limit);
  if (limit > 0 && limit < dataset.utterances.size()) dataset.utterances.resize(limit);
  for (auto& utterance : dataset.utterances) {
    if (utterance.seconds == 0) utterance.seconds = audio_seconds(utterance.audio);
  }
  return dataset;
}

}  // namespace rtfx
