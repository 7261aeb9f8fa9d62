#include "datasets/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "datasets/audio.h"
#include "datasets/media.h"

namespace rtfx {

void UtteranceList::add(Utterance utterance, std::string_view where) {
  const auto [first, is_new] = ids_.try_emplace(utterance.id, where);
  if (!is_new) {
    const std::string& before = first->second;
    throw UserError(where,
                    fmt::format("utterance '{}' occurs a second time{}", utterance.id,
                                before == where ? "" : ", first at " + before),
                    "list every utterance once, under an id of its own");
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

bool is_manifest(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view ending : {".json", ".jsonl", ".manifest"})
    if (name.ends_with(ending) || name.ends_with(std::string(ending) + ".gz")) return true;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  std::string head(64, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  std::string_view text = std::string_view(head).substr(0, static_cast<size_t>(in.gcount()));
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
  return std::filesystem::is_regular_file(path, failed) ? read_text(path) : read_text_file(path);
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
      return value.get<std::string>();
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

/// Collects the missing files of a set, so that its error says how many there are.
class MissingFiles {
 public:
  /// Adds the error for a file. A file that was added before does not count again.
  void add(const std::filesystem::path& file, const UserError& error) {
    if (files_.insert(file).second && files_.size() <= kShown) shown_.add(error);
  }

  /// Throws the errors of the first files. If several files are missing, also throws an error at
  /// `where` with their number. `all` counts the files of the set, and `noun` names them.
  void throw_any(const std::string& where, size_t all, const char* noun) {
    if (files_.size() > 1)
      shown_.add({where, fmt::format("{} of {} {} are missing", files_.size(), all, noun)});
    shown_.throw_any();
  }

 private:
  static constexpr size_t kShown = 3;
  std::set<std::filesystem::path> files_;
  ErrorList shown_;
};

constexpr const char* kAudioFiles = "audio files";

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
    std::set<std::filesystem::path> files;
    for (const Utterance& utterance : utterances) files.insert(utterance.audio);
    missing_.throw_any(manifest.string(), files.size(), kAudioFiles);
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

/// Reads LibriSpeech folders. They hold `<id> <TEXT>` lines in *.trans.txt, and <id>.flac or
/// <id>.wav beside them. Returns all utterances below `folder`, in the order of the transcripts'
/// paths and lines. Appends the bytes of the transcripts to `transcripts`, and the notice of
/// files_below() to `notices`.
///
/// Throws UserError for a folder that is missing or has no transcripts. Throws UserError at
/// "transcript:line" for missing audio, a repeated id, a NUL or text that is not UTF-8.
std::vector<Utterance> read_librispeech(const std::filesystem::path& folder,
                                        std::string& transcripts,
                                        std::vector<std::string>& notices) {
  UtteranceList list;
  MissingFiles missing;
  for (const auto& transcript : files_below(folder, {".trans.txt"}, &notices)) {
    const std::string text = read_text_file(transcript);
    transcripts += text;
    std::istringstream lines(text);
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::string where = fmt::format("{}:{}", transcript.string(), number);
      require_utf8(line, where);
      if (line.find('\0') != std::string::npos)
        throw UserError(where, "has a NUL character", "leave it out");
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
  missing.throw_any(folder.string(), utterances.size(), kAudioFiles);
  return utterances;
}

bool ends_in(const std::filesystem::path& path, const std::vector<std::string>& endings) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

/// Returns whether a file is AppleDouble. macOS writes such a file, "._NAME", beside the file NAME
/// in archives and on disks of other systems. It has attributes of NAME and nothing of its content.
bool is_apple_double(const std::filesystem::path& path) {
  constexpr std::string_view kMagic("\0\x05\x16\x07", 4);
  if (!path.filename().string().starts_with("._")) return false;
  std::string head(kMagic.size(), '\xff');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kMagic;
}

}  // namespace

namespace {

class FolderWalk {
 public:
  explicit FolderWalk(const std::vector<std::string>& endings) : endings_(endings) {}

  void enter(const std::filesystem::path& folder) {
    std::error_code failed;
    // A link may lead to a folder that contains it.
    const auto place = std::filesystem::canonical(folder, failed);
    if (failed) return list(folder);
    if (!entered_.insert(place).second) return;
    list(folder);
    entered_.erase(place);
  }

  std::vector<std::filesystem::path> found;
  std::vector<UserError> skipped;
  int64_t apple_doubles = 0;  // files that were left out

 private:
  void list(const std::filesystem::path& folder) {
    std::error_code failed;
    std::filesystem::directory_iterator entries(folder, failed);
    if (failed) return skip(folder, failed.message(), "check its permissions");
    while (entries != std::filesystem::directory_iterator()) {
      visit(*entries);
      entries.increment(failed);
      if (failed) return skip(folder, failed.message(), "check its permissions");
    }
  }

  void visit(const std::filesystem::directory_entry& entry) {
    std::error_code failed;
    const auto type = entry.status(failed).type();
    if (type == std::filesystem::file_type::directory) return enter(entry.path());
    if (!ends_in(entry.path(), endings_)) return;
    switch (type) {
      case std::filesystem::file_type::regular:
        if (is_apple_double(entry.path()))
          ++apple_doubles;
        else
          found.push_back(entry.path());
        break;
      case std::filesystem::file_type::not_found:
        skip(entry.path(), "is a link to nothing", "mend or remove it");
        break;
      case std::filesystem::file_type::none:
      case std::filesystem::file_type::unknown:
        skip(entry.path(), failed.message(), "check its permissions");
        break;
      default:
        skip(entry.path(), "is a pipe or device, not a file", "move it out of the folder");
    }
  }

  void skip(const std::filesystem::path& path, const std::string& problem, const char* remedy) {
    skipped.emplace_back(path.string(), problem, remedy);
  }

  const std::vector<std::string>& endings_;
  std::set<std::filesystem::path> entered_;
};

}  // namespace

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings,
                                               std::vector<std::string>* notices,
                                               std::vector<UserError>* skipped) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string(), "no such folder", "check the path");
  }
  FolderWalk walk(endings);
  walk.enter(folder);
  if (skipped == nullptr) {
    ErrorList errors;
    for (const UserError& error : walk.skipped) errors.add(error);
    errors.throw_any();
  } else {
    skipped->insert(skipped->end(), walk.skipped.begin(), walk.skipped.end());
  }
  const std::string left_out =
      counted(walk.apple_doubles, "file") + " ._*, in which macOS keeps attributes of other files";
  if (walk.found.empty() && walk.skipped.empty()) {
    throw UserError(folder.string(),
                    fmt::format("holds no file ending in {}{}", fmt::join(endings, ", "),
                                walk.apple_doubles > 0 ? ", apart from " + left_out : ""),
                    "name another folder");
  }
  if (walk.apple_doubles > 0 && notices != nullptr)
    notices->push_back(fmt::format("{}: left out {}", folder.string(), left_out));
  std::sort(walk.found.begin(), walk.found.end());
  return std::move(walk.found);
}

namespace {

std::string place_of(const DatasetSource& source) { return fmt::format("dataset '{}'", source.id); }

/// Returns one utterance per file of the source, whose id is its path. A folder stands for the
/// audio files below it (media_endings()). Throws UserError for a missing path, a pipe or device,
/// an empty folder or a file named twice. Appends the notices of files_below() to `notices`.
std::vector<Utterance> list_audio_files(const DatasetSource& source,
                                        std::vector<std::string>& notices) {
  UtteranceList list;
  MissingFiles missing;
  const auto add = [&](const std::filesystem::path& path) {
    list.add({.id = path.string(), .audio = path, .seconds = 0, .text = {}}, path.string());
  };
  for (const std::filesystem::path path : source.files) {
    std::error_code failed;
    const auto type = std::filesystem::status(path, failed).type();
    if (type == std::filesystem::file_type::directory) {
      for (const auto& file : files_below(path, media_endings(), &notices)) add(file);
    } else if (type == std::filesystem::file_type::regular) {
      add(path);
    } else if (type == std::filesystem::file_type::not_found) {
      missing.add(path, {path.string(), "no such file or folder", "check the path"});
    } else if (type == std::filesystem::file_type::none) {  // such as links that form a circle
      throw UserError(path.string(), failed.message(), "check the path");
    } else {
      throw UserError(path.string(), "is a pipe or device, not a file", "name a file");
    }
  }
  missing.throw_any(place_of(source), source.files.size(), "files or folders");
  return list.take();
}

/// Returns a text that identifies the files. With names alone, two different recordings of the same
/// name would be equal.
std::string names_and_sizes(const std::vector<Utterance>& utterances) {
  std::string text;
  for (const auto& utterance : utterances) {
    text += fmt::format("{}\t{}\n", utterance.id, std::filesystem::file_size(utterance.audio));
  }
  return text;
}

/// Returns the set that datasets/prepare_dataset.py writes into a folder of this name. Empty for
/// others.
std::string prepared_set(const std::filesystem::path& folder) {
  static const std::map<std::string, std::string> sets = {
      {"librispeech", "librispeech"}, {"spgi", "spgispeech"},
      {"earnings22", "earnings22"},   {"ami", "ami"},
      {"europarl", "europarl"},       {"slurp", "slurp"}};
  const auto found = sets.find(folder.filename().string());
  return found == sets.end() ? "" : found->second;
}

/// Throws UserError where the manifest does not exist.
void require_manifest(const std::string& manifest) {
  const std::filesystem::path path = manifest;
  if (std::filesystem::exists(path)) return;
  const std::string folder = path.parent_path().string();
  if (const std::string set = prepared_set(folder); !set.empty()) {
    throw UserError(
        manifest, "no such file",
        fmt::format("`.venv/bin/python datasets/prepare_dataset.py {} SOURCE --output {}` makes it "
                    "from the recordings; or name other data with --set datasets.N.manifest=FILE, "
                    "such as those of datasets/speak_librispeech.py",
                    set, folder));
  }
  // Synthetic speech can stand in for these sets, in any folder.
  const std::string name = path.parent_path().filename().string();
  const bool clean = name.find("test_clean") != std::string::npos;
  const bool spoken = clean || name.find("test_other") != std::string::npos;
  throw UserError(
      manifest, "no such file",
      fmt::format("`.venv/bin/python datasets/speak_librispeech.py {}{}` makes {}; or name other "
                  "data with --set datasets.N.manifest=FILE",
                  spoken ? folder : "data/test_other", clean ? " --set test-clean" : "",
                  spoken ? "it" : "spoken test data"));
}

/// Returns the first line of stand_in.txt in the folder. Empty without such a file.
std::string stand_in_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "stand_in.txt";
  if (!std::filesystem::exists(file)) return "";
  const std::string text = read_text_file(file);
  const std::string_view plain = without_byte_order_mark(text, file.string());
  const std::string line(plain.substr(0, plain.find_first_of("\r\n")));
  if (line.empty())
    throw UserError(file.string(), "its first line is empty", "say in it what the audio is");
  return line;
}

std::string stand_in_of(const DatasetSource& source) {
  if (!source.stand_in.empty()) return source.stand_in;
  if (!source.manifest.empty())
    return stand_in_in(std::filesystem::path(source.manifest).parent_path());
  return source.librispeech.empty() ? "" : stand_in_in(source.librispeech);
}

}  // namespace

Dataset load_dataset(const DatasetSource& source) {
  const int kinds = !source.manifest.empty() + !source.librispeech.empty() + !source.files.empty();
  if (kinds != 1) {
    throw UserError(place_of(source), fmt::format("names {} sources of audio", kinds),
                    "give exactly one of manifest, librispeech, files");
  }
  if (source.limit < 0) {
    throw UserError(place_of(source), fmt::format("limit is {}", source.limit),
                    "give 0 (all) or more");
  }

  Dataset dataset{.id = source.id, .utterances = {}, .sha256 = {}, .stand_in = {}};
  std::string identity;
  if (const std::string& manifest = source.manifest; !manifest.empty()) {
    require_manifest(manifest);
    if (std::filesystem::is_directory(manifest)) {
      dataset.utterances = read_librispeech(manifest, identity, dataset.notices);
    } else {
      identity = read_manifest_text(manifest);
      dataset.utterances = parse_manifest(manifest, identity);
    }
  } else if (!source.librispeech.empty()) {
    dataset.utterances = read_librispeech(source.librispeech, identity, dataset.notices);
  } else {
    dataset.utterances = list_audio_files(source, dataset.notices);
    identity = names_and_sizes(dataset.utterances);
  }
  for (const double seconds : source.seconds)
    if (seconds > 0 || source.seconds.size() > 1) identity += fmt::format("\tcut to {} s", seconds);
  dataset.sha256 = sha256(identity);
  dataset.stand_in = stand_in_of(source);

  const auto limit = static_cast<size_t>(source.limit);
  if (limit > 0 && limit < dataset.utterances.size()) dataset.utterances.resize(limit);
  for (size_t i = 0; i < dataset.utterances.size(); ++i) {
    Utterance& utterance = dataset.utterances[i];
    const double wanted = source.seconds.empty() ? 0 : source.seconds[i % source.seconds.size()];
    if (wanted > 0) {
      utterance.seconds = utterance.cut_seconds = wanted;
      utterance.text.reset();  // it does not match the audio any more
    }
    if (utterance.seconds == 0)
      utterance.seconds = std::max(0.0, media_seconds(utterance.audio) - utterance.segment.offset);
  }
  return dataset;
}

Audio read_utterance(const Utterance& utterance) {
  Audio audio = read_media(utterance.audio, kSampleRate,
                           {utterance.segment.channel, utterance.segment.track});
  cut(audio, utterance.segment, utterance.where);
  if (utterance.cut_seconds == 0) return audio;
  const size_t own = audio.samples.size();
  audio.samples.resize(
      static_cast<size_t>(std::llround(utterance.cut_seconds * audio.sample_rate)));
  for (size_t i = own; i < audio.samples.size(); ++i) audio.samples[i] = audio.samples[i - own];
  return audio;
}

}  // namespace rtfx
