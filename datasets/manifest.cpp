#include "datasets/manifest.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json_file.h"
#include "datasets/utterance_list.h"

namespace rtfx {
namespace {

using nlohmann::json;

const char* const kExample = R"(write {"audio_filepath": "a.wav", "duration": 1.5, "text": "..."})";

/// One line of a manifest and the place to name in its errors.
class Line {
 public:
  Line(std::string where, const std::string& text) : where_(std::move(where)) {
    object_ = parse_json(text, where_, kExample);
    if (!object_.is_object()) throw UserError(where_, "not a JSON object", kExample);
  }

  std::string audio_filepath() const {
    const auto found = object_.find("audio_filepath");
    if (found == object_.end()) throw UserError(where_, "lacks 'audio_filepath'", kExample);
    if (!found->is_string()) fail("audio_filepath", "a string");
    if (found->get_ref<const std::string&>().empty()) fail("audio_filepath", "a path");
    return *found;
  }

  AudioSegment segment() const {
    return {.offset = seconds("offset"), .seconds = seconds("duration")};
  }

  std::optional<std::string> text() const {
    const json value = object_.value("text", json());
    if (value.is_null()) return std::nullopt;
    if (!value.is_string()) fail("text", "a string");
    return value.get<std::string>();
  }

  std::vector<Phrase> boost() const {
    const auto value = view().find("boost");
    return value ? parse_phrases(*value) : std::vector<Phrase>{};
  }

  std::vector<std::string> allowed() const {
    std::vector<std::string> characters;
    if (const auto value = view().find("allowed"))
      for (const JsonView& one : value->elements()) characters.push_back(one.text());
    return characters;
  }

  const std::string& where() const { return where_; }

 private:
  JsonView view() const { return {object_, where_}; }

  double seconds(const char* field) const {
    const json value = object_.value(field, json());
    if (value.is_null()) return 0;
    if (!value.is_number() || value.get<double>() < 0)
      fail(field, "a number of seconds, 0 or more");
    return value.get<double>();
  }

  [[noreturn]] void fail(const char* field, const char* expected) const {
    throw UserError(where_, fmt::format("'{}' is {}", field, object_.at(field).dump()),
                    fmt::format("it must be {}", expected));
  }

  std::string where_;
  json object_;
};

Utterance to_utterance(const Line& line, const std::filesystem::path& folder, ManifestAudio audio) {
  const std::filesystem::path written = line.audio_filepath();
  Utterance utterance;
  utterance.id = std::filesystem::path(written).replace_extension().string();
  utterance.segment = line.segment();
  if (utterance.segment.offset > 0) utterance.id += fmt::format("@{:g}", utterance.segment.offset);
  utterance.audio = folder / written;  // `written` alone where it is absolute
  utterance.seconds = utterance.segment.seconds;
  utterance.text = line.text();
  utterance.boost = line.boost();
  utterance.allowed = line.allowed();
  utterance.where = line.where();
  if (audio == ManifestAudio::must_exist && !std::filesystem::exists(utterance.audio)) {
    throw UserError(line.where(),
                    fmt::format("'audio_filepath': no such file {}", utterance.audio.string()),
                    "paths are absolute or relative to the manifest's folder");
  }
  return utterance;
}

}  // namespace

std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio) {
  UtteranceList list;
  std::istringstream in{std::string(contents)};
  int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Line line(fmt::format("{}:{}", path.string(), number), text);
    list.add(to_utterance(line, path.parent_path(), audio), line.where());
  }
  auto utterances = list.take();
  if (utterances.empty()) throw UserError(path.string(), "the manifest is empty", kExample);
  return utterances;
}

}  // namespace rtfx
