#include "datasets/librispeech.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/utf8.h"
#include "datasets/audio_files.h"
#include "datasets/missing_files.h"

namespace rtfx {

namespace {

/// Returns the path of an utterance's audio, or adds it to `missing`.
std::filesystem::path audio_beside(const std::filesystem::path& transcript, const std::string& id,
                                   const std::string& where, MissingFiles& missing) {
  for (const char* extension : {".flac", ".wav"}) {
    auto audio = transcript.parent_path() / (id + extension);
    if (std::filesystem::exists(audio)) return audio;
  }
  missing.add(transcript.parent_path() / id,
              {where, fmt::format("no {0}.flac or {0}.wav beside the transcript", id),
               "unpack the whole archive"});
  return {};
}

}  // namespace

std::vector<Utterance> read_librispeech(const std::filesystem::path& folder,
                                        std::string& transcripts,
                                        std::vector<std::string>& notices) {
  UtteranceList list;
  MissingFiles missing;
  for (const auto& transcript : files_below(folder, {".trans.txt"}, &notices)) {
    const std::string text = read_bytes(transcript);
    transcripts += text;
    std::istringstream lines(text);
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::string where = fmt::format("{}:{}", transcript.string(), number);
      require_utf8(line, where);
      require_no_nul(line, where);
      std::istringstream words{std::string(without_byte_order_mark(line, where))};
      Utterance utterance;
      if (!(words >> utterance.id)) continue;
      utterance.audio = audio_beside(transcript, utterance.id, where, missing);
      utterance.text.emplace();
      std::getline(words >> std::ws, *utterance.text);
      if (utterance.text->ends_with('\r')) utterance.text->pop_back();
      list.add(std::move(utterance), where);
    }
  }
  auto utterances = list.take();
  missing.throw_any(folder.string(), utterances.size());
  return utterances;
}

}  // namespace rtfx
