#include "datasets/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "datasets/missing_files.h"

namespace rtfx {

bool is_manifest(const std::filesystem::path& path) {
  if (has_ending(path, {".json", ".jsonl", ".manifest", ".json.gz", ".jsonl.gz", ".manifest.gz"}))
    return true;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  const std::string head = bytes_at(path, 0, 64);
  std::string_view text = head;
  // Other byte order marks are no error here, since an MP3 file may begin with the same bytes as
  // UTF-16.
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; text.starts_with(kMark))
    text.remove_prefix(kMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// Reads a pipe as it is, because only a file can be examined before it is read.
std::string read_manifest_text(const std::filesystem::path& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) ? read_text(path) : read_bytes(path);
}

namespace {

using nlohmann::json;

const char* const kExample = R"(write {"audio_filepath": "a.wav", "duration": 1.5, "text": "..."})";

/// A line of a manifest, and the place to name in its errors.
class Line {
 public:
  Line(std::string where, std::string_view text) : where_(std::move(where)) {
    object_ = parse_json(text, where_, kExample);
    if (!object_.is_object()) throw UserError(where_, "not a JSON object", kExample);
  }

  std::string audio_filepath() const {
    const auto found = object_.find("audio_filepath");
    if (found == object_.end()) throw UserError(where_, "lacks 'audio_filepath'", kExample);
    if (!found->is_string()) fail("audio_filepath", "a string");
    if (found->get_ref<const std::string&>().empty()) fail("audio_filepath", "a path");
    return view().at("audio_filepath").text();
  }

  AudioSegment segment() const { return {.offset = seconds("offset"), .seconds = duration()}; }

  std::optional<std::string> id() const {
    for (const char* field : {"id", "utterance_id"}) {
      const json value = object_.value(field, json());
      if (value.is_null()) continue;
      if (value.is_number_integer()) return value.dump();
      if (!value.is_string() || value.get_ref<const std::string&>().empty())
        fail(field, "text or an integer");
      return view().at(field).text();
    }
    return std::nullopt;
  }

  std::optional<std::string> text() const {
    const json value = object_.value("text", json());
    if (value.is_null()) return std::nullopt;
    if (!value.is_string()) fail("text", "a string");
    return value.get<std::string>();
  }

  std::optional<std::string> language() const {
    for (const char* key : {"target_lang", "lang"}) {
      const json value = object_.value(key, json());
      if (value.is_null()) continue;
      if (!value.is_string()) fail(key, "a string");
      return value.get<std::string>();
    }
    return std::nullopt;
  }

  std::vector<Phrase> boost() const {
    const auto value = view().find("boost");
    return value ? parse_phrases(*value) : std::vector<Phrase>{};
  }

  std::optional<std::vector<std::string>> allowed() const {
    const auto value = view().find("allowed");
    if (!value) return std::nullopt;
    std::vector<std::string> characters;
    if (value->value() == json::array()) return characters;
    for (const JsonView& one : value->elements()) characters.push_back(one.text());
    return characters;
  }

  const std::string& where() const { return where_; }

  /// Returns whether the line is a cut of Lhotse, and not an utterance of NeMo. Throws UserError
  /// for any other line of Lhotse.
  bool is_cut() const {
    if (object_.contains("audio_filepath")) return false;
    const json type = object_.value("type", json());
    constexpr const char* kJoin = "join both: CutSet.from_manifests(recordings, supervisions)";
    if (type == "MixedCut" || object_.contains("tracks"))
      throw UserError(where_, "is a MixedCut of Lhotse, a mix of several cuts", kSave);
    if (type == "PaddingCut")
      throw UserError(where_, "is a PaddingCut of Lhotse, silence without a recording",
                      "leave it out, or mix it with its cut: cuts.save_audios(FOLDER)");
    if (object_.contains("sources"))
      throw UserError(where_, "is a Recording of Lhotse and no cut", kJoin);
    if (object_.contains("recording_id") && !object_.contains("recording"))
      throw UserError(where_,
                      object_.contains("storage_type")
                          ? "is Features of Lhotse, which have no audio"
                          : "is a SupervisionSegment of Lhotse, which has no audio",
                      kJoin);
    return object_.contains("supervisions") || object_.contains("recording");
  }

  /// Returns the cut without the path of its audio.
  Utterance cut() const {
    Utterance utterance;
    utterance.id = view().at("id").text();
    utterance.segment = {.offset = seconds("start"), .seconds = duration()};
    utterance.segment.channel = source().second;
    require_no_transform();
    for (const JsonView& said : supervisions()) {
      if (const auto language = said.find("language"); language && !utterance.language)
        utterance.language = language->text();
      const auto text = said.find("text");
      if (!text) continue;
      if (!utterance.text) utterance.text.emplace();
      if (!utterance.text->empty()) *utterance.text += ' ';
      *utterance.text += text->value().get<std::string>();
    }
    return utterance;
  }

  std::string cut_path() const {
    const JsonView source = this->source().first;
    const std::string type = source.at("type").text();
    if (type != "file") {
      throw UserError(source.where(), fmt::format("the audio is of type '{}'", type), kSave);
    }
    return source.at("source").text();
  }

 private:
  static constexpr int64_t kMostChannels = 1024;
  static constexpr const char* kSave = "write the audio into files: cuts.save_audios(FOLDER)";

  JsonView view() const { return {object_, where_}; }

  /// Returns a number, or the numbers of a list.
  static std::set<int64_t> numbers(const JsonView& view) {
    if (!view.value().is_array()) return {view.integer(0, kMostChannels)};
    std::set<int64_t> all;
    for (const JsonView& one : view.elements()) all.insert(one.integer(0, kMostChannels));
    return all;
  }

  /// Returns the file that holds the channel of the cut, and the channel's number in the file. The
  /// number is 0 where the file has no other channel, or the cut has all channels. Lhotse numbers
  /// the channels of a recording, which may have one file for each.
  std::pair<JsonView, int> source() const {
    const auto recording = view().find("recording");
    if (!recording) {
      throw UserError(where_, "the cut has no recording",
                      "write cuts with audio, not with features alone");
    }
    const std::vector<JsonView> sources = recording->at("sources").elements();
    if (sources.empty()) recording->at("sources").fail("a list of files");
    const auto channel = view().find("channel");
    const std::set<int64_t> asked = channel ? numbers(*channel) : std::set<int64_t>();
    if (asked.size() != 1) {
      if (sources.size() > 1) {
        throw UserError(where_, "the channels of the cut are in several files",
                        "write cuts of one channel each");
      }
      const auto held = sources.front().find("channels");
      if (held && !asked.empty() && asked != numbers(*held)) {
        throw UserError(where_, "the cut has some of the channels of its file",
                        "write cuts of one channel each, or of all");
      }
      return {sources.front(), 0};
    }
    const int64_t wanted = *asked.begin();
    for (const JsonView& one : sources) {
      const auto channels = one.find("channels");
      if (!channels) continue;
      const std::vector<JsonView> held = channels->elements();
      for (size_t i = 0; i < held.size(); ++i) {
        if (held[i].integer(0, kMostChannels) == wanted)
          return {one, held.size() == 1 ? 0 : static_cast<int>(i) + 1};
      }
    }
    throw UserError(where_, fmt::format("no file of the recording has channel {}", wanted),
                    "write the cuts again with Lhotse");
  }

  /// Returns the supervisions in the order of their begins.
  std::vector<JsonView> supervisions() const {
    const auto list = view().find("supervisions");
    std::vector<JsonView> all;
    if (!list || (list->value().is_array() && list->value().empty())) return all;
    all = list->elements();
    for (const JsonView& one : all) {
      if (!one.value().is_object()) one.fail("a supervision");
      if (const auto text = one.find("text"); text && !text->value().is_string())
        text->fail("a text");
    }
    std::ranges::stable_sort(all, {}, [](const JsonView& one) {
      const auto start = one.find("start");
      return start && start->value().is_number() ? start->value().get<double>() : 0;
    });
    return all;
  }

  /// Throws UserError where there are transforms. Lhotse applies them when it reads the recording,
  /// and its file does not have them.
  void require_no_transform() const {
    const auto list = view().at("recording").find("transforms");
    if (!list || list->value().empty()) return;
    const JsonView first = list->elements().front();
    const bool is_named = first.value().is_object() && first.value().contains("name");
    const json kwargs = is_named ? first.value().value("kwargs", json::object()) : json::object();
    throw UserError(first.where(),
                    fmt::format("the recording has the transform {}{}, which rtfx does not apply",
                                is_named ? first.at("name").text() : first.value().dump(),
                                kwargs.empty() ? "" : " " + kwargs.dump()),
                    kSave);
  }

  /// Returns 0 where the duration is left out. NeMo's readers of manifests interpret a written 0 in
  /// different ways.
  double duration() const {
    const json value = object_.value("duration", json());
    if (value.is_null()) return 0;
    if (!value.is_number() || !(value.get<double>() > 0))
      fail("duration", "a number of seconds above 0, or left out: up to the end of the file");
    return value.get<double>();
  }

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

/// Adds the file to `missing` if it does not exist. Throws UserError if it is a folder.
void check_audio(const Utterance& utterance, const char* field, MissingFiles& missing) {
  const std::filesystem::file_status status = std::filesystem::status(utterance.audio);
  if (std::filesystem::is_directory(status)) {
    throw UserError(utterance.where,
                    fmt::format("'{}': {} is a folder", field, utterance.audio.string()),
                    "name the file of one recording");
  }
  if (std::filesystem::exists(status)) return;
  missing.add(
      utterance.audio,
      {utterance.where, fmt::format("'{}': no such file {}", field, utterance.audio.string()),
       "paths are absolute or relative to the manifest's folder"});
}

Utterance to_cut(const Line& line, const std::filesystem::path& folder) {
  Utterance utterance = line.cut();
  const std::filesystem::path written = line.cut_path();
  utterance.audio = folder / written;
  if (!std::filesystem::exists(utterance.audio) && std::filesystem::exists(written))
    utterance.audio = written;
  utterance.seconds = utterance.segment.seconds;
  utterance.where = line.where();
  return utterance;
}

/// Reads the utterances of one manifest.
class ManifestReader {
 public:
  ManifestReader(std::filesystem::path folder, ManifestAudio audio)
      : folder_(std::move(folder)), audio_(audio) {}

  Utterance read(const Line& line) {
    const bool is_cut = line.is_cut();
    Utterance utterance = is_cut ? to_cut(line, folder_) : to_utterance(line);
    if (audio_ == ManifestAudio::must_exist)
      check_audio(utterance, is_cut ? "source" : "audio_filepath", missing_);
    return utterance;
  }

  /// Throws UserError if audio of the utterances, which are all that were read, is missing.
  void require_audio(const std::filesystem::path& manifest,
                     const std::vector<Utterance>& utterances) {
    if (missing_.empty()) return;
    std::set<std::filesystem::path> files;
    for (const Utterance& utterance : utterances) files.insert(utterance.audio);
    missing_.throw_any(manifest.string(), files.size());
  }

 private:
  Utterance to_utterance(const Line& line) {
    const std::filesystem::path written = line.audio_filepath();
    Utterance utterance;
    utterance.segment = line.segment();
    utterance.id = line.id().value_or(id_of(written, utterance.segment));
    utterance.audio = folder_ / written;  // joined only if it is relative
    utterance.seconds = utterance.segment.seconds;
    utterance.text = line.text();
    utterance.boost = line.boost();
    utterance.allowed = line.allowed();
    utterance.language = line.language();
    utterance.where = line.where();
    return utterance;
  }

  /// Returns an id. Equal segments get equal ids.
  std::string id_of(std::filesystem::path audio, const AudioSegment& segment) {
    std::string id = audio.replace_extension().string();
    if (segment.offset > 0) id += fmt::format("@{}", segment.offset);
    const auto [first, is_new] = first_.try_emplace(id, segment);
    if (is_new || first->second == segment) return id;
    return segment.seconds == 0 ? id + "+end" : fmt::format("{}+{}", id, segment.seconds);
  }

  std::filesystem::path folder_;
  ManifestAudio audio_;
  MissingFiles missing_;
  std::map<std::string, AudioSegment> first_;  // the first segment of each path and offset
};

}  // namespace

std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio) {
  UtteranceList list;
  ManifestReader reader(path.parent_path(), audio);
  std::istringstream in{std::string(contents)};
  int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    const std::string_view plain = without_byte_order_mark(text, where);
    if (plain.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Line line(where, plain);
    list.add(reader.read(line), line.where());
  }
  auto utterances = list.take();
  if (utterances.empty()) throw UserError(path.string(), "the manifest is empty", kExample);
  reader.require_audio(path, utterances);
  return utterances;
}

}  // namespace rtfx
