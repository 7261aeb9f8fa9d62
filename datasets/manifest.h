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

/// The utterances of the manifest `contents`, which was read from `path`. Keys of a line:
///
///   audio_filepath  absolute, or relative to the manifest's folder; the id is this path without
///                   its extension, with "@OFFSET" behind it where there is an offset
///   offset          seconds at which the utterance begins in the file; may be left out or null
///   duration        seconds of the utterance, as NeMo cuts it (cut() in datasets/audio.h); left
///                   out, null or 0: up to the end of the file
///   text            the reference; may be left out or null
///   boost           phrases that are likely in the utterance (base/phrases.h); may be left out
///   allowed         a list of the characters that its text may have; may be left out
///
/// Other keys are ignored, and blank lines are skipped. Throws UserError at "path:line" for a line
/// that is not a JSON object, a field that is missing or of the wrong type, a repeated id, and
/// audio that does not exist (unless `audio` allows that). Throws at "path" for an empty manifest.
std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio = ManifestAudio::must_exist);

}  // namespace rtfx
