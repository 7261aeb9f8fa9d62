#include "datasets/utterance_list.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace rtfx {

void UtteranceList::add(Utterance utterance, std::string_view where) {
  if (!ids_.insert(utterance.id).second) {
    throw UserError(where, fmt::format("utterance '{}' occurs a second time", utterance.id),
                    "list every utterance once");
  }
  utterances_.push_back(std::move(utterance));
}

std::string read_text_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError(path.string(), "no such file", "check the path");
  }
  if (std::filesystem::is_directory(path)) {
    throw UserError(path.string(), "is a directory, not a file", "name a file in it");
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw UserError(path.string(), "cannot be read", "check its permissions");
  return std::move(text).str();
}

}  // namespace rtfx
