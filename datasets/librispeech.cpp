#include "datasets/librispeech.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "datasets/audio_files.h"
#include "datasets/utterance_list.h"

namespace rtfx {
namespace {

std::filesystem::path audio_beside(const std::filesystem::path& transcript, const std::string& id,
                                   const std::string& where) {
  for (const char* extension : {".flac", ".wav"}) {
    auto audio = transcript.parent_path() / (id + extension);
    if (std::filesystem::exists(audio)) return audio;
  }
  throw UserError(where, fmt::format("no {0}.flac or {0}.wav beside the transcript", id),
                  "unpack the whole archive");
}

}  // namespace

std::vector<Utterance> read_librispeech(const std::filesystem::path& folder,
                                        std::string& transcripts) {
  UtteranceList list;
  for (const auto& transcript : files_below(folder, {".trans.txt"})) {
    const std::string text = read_text_file(transcript);
    transcripts += text;
    std::istringstream lines(text);
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      std::istringstream words(line);
      Utterance utterance;
      if (!(words >> utterance.id)) continue;
      const std::string where = fmt::format("{}:{}", transcript.string(), number);
      utterance.audio = audio_beside(transcript, utterance.id, where);
      utterance.text.emplace();
      std::getline(words >> std::ws, *utterance.text);
      list.add(std::move(utterance), where);
    }
  }
  return list.take();
}

}  // namespace rtfx
