// Reads manifests, as NeMo and Lhotse write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

/// Returns whether a file is a manifest. Its name ends in .json, .jsonl or .manifest, in any case,
/// optionally followed by .gz. A file that begins with "{" is one too.
bool is_manifest(const std::filesystem::path& path);

/// Returns the text of a manifest, which may be gzip. Throws as read_bytes() does.
std::string read_manifest_text(const std::filesystem::path& path);

enum class ManifestAudio : uint8_t { must_exist, may_be_missing };

/// Returns the utterances of the manifest `contents`, which was read from `path`. NeMo writes
/// manifests with one JSON object per line:
///
///   {"audio_filepath": "a/b.flac", "duration": 3.2, "text": "what was said"}
///
///   audio_filepath  absolute, or relative to the manifest's folder
///   offset          seconds at which the utterance begins in the file; may be left out or null
///   duration        seconds of the utterance, as NeMo cuts it (cut() in datasets/audio.h);
///                   if it is left out or null, the utterance lasts to the end of the file
///   id              or utterance_id: text or an integer; may be left out or null
///   text            the reference; may be left out or null
///   boost           phrases for contextual biasing (base/phrases.h); may be left out
///   allowed         a list of the characters that its text may have; an empty one allows all;
///                   may be left out
///   target_lang, lang  the language of its text, for models with prompts; the first that is there
///                   counts; may be left out or null
///
/// An utterance without an id gets its path without the extension. "@OFFSET" follows where there is
/// an offset. For another segment with the same offset, "+DURATION" follows that.
///
/// A line may also be a cut of Lhotse: {"id", "start", "duration", "channel", "supervisions":
/// [{"text", "language", ...}], "recording": {"sources": [{"type": "file", "source": PATH}], ...}}.
/// Its text joins the texts of its supervisions, and its language is that of the first supervision
/// with a language. Its path may be relative to the working folder, too. Throws UserError for other
/// lines of Lhotse, and for a recording with `transforms`.
///
/// Other keys are ignored, and blank lines are skipped. Throws UserError at "path:line" for a line
/// that is not a JSON object. It also throws for a field that is missing, of the wrong type or out
/// of range (a duration must be above 0). It throws for a repeated id or segment, and for audio
/// that does not exist or is a folder (unless `audio` allows that). For several missing files, it
/// throws UserErrors with the first of them and their number. For an empty manifest, it throws at
/// "path".
std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio = ManifestAudio::must_exist);

}  // namespace rtfx
