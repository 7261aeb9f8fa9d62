// Manifests as NeMo writes them: one JSON object per line.
//   {"audio_filepath": "a/b.flac", "duration": 3.2, "text": "what was said"}
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

enum class ManifestAudio : uint8_t { must_exist, may_be_missing };

/// The utterances of the manifest `contents`, which was read from `path`. `audio_filepath` is
/// absolute or relative to the manifest's folder, and without its extension the utterance's id;
/// `duration` in seconds and `text` may be left out or null, and so may `boost`, phrases that are
/// likely in the utterance (base/phrases.h), and `allowed`, a list of the characters that its text
/// may have; other keys are ignored, except an `offset` other than 0: parts of files are not
/// supported. Blank lines are skipped.
/// Throws UserError at "path:line" for a line that is not a JSON object, a field that is missing or
/// of the wrong type, audio that does not exist (unless `audio` lets that be), a repeated id; at
/// "path" for an empty manifest.
std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio = ManifestAudio::must_exist);

}  // namespace rtfx
