#include "harness/cli/transcribe_files.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "datasets/audio_files.h"
#include "datasets/manifest.h"
#include "datasets/media.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

namespace fs = std::filesystem;

fs::path output_name(const fs::path& name) { return name.filename().replace_extension(); }

constexpr const char* kFreeSpace = "free some space, or set TMPDIR";

/// Copies standard input to its end into `scratch`.
TranscribeInput standard_input(ScratchFile& scratch) {
  const int to = scratch.descriptor();
  int error = 0;
  std::array<char, 65536> block{};
  while (error == 0 && !is_interrupted()) {
    // A signal does not end a read(), but restarts it.
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, /*milliseconds=*/200) <= 0) continue;
    const ssize_t count = read(STDIN_FILENO, block.data(), block.size());
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UserError("standard input", "cannot be read", "give a file");
    error = write_all(to, {block.data(), static_cast<size_t>(count)});
  }
  check_interrupt();
  if (error != 0) cannot_write(fs::temp_directory_path(), error, kFreeSpace);
  return {.name = "-", .audio = scratch.path(), .output = "stdin", .reference = {}};
}

std::vector<TranscribeInput> of_manifest(const fs::path& path) {
  std::vector<TranscribeInput> inputs;
  std::set<std::string> names;
  // A missing file is no error here. Reading it reports it, and the other files keep their results.
  for (const Utterance& utterance :
       parse_manifest(path, read_manifest_text(path), ManifestAudio::may_be_missing)) {
    const fs::path id = fs::path(utterance.id).relative_path().lexically_normal();
    const bool leaves = !id.empty() && *id.begin() == "..";
    const AudioSegment& segment = utterance.segment;
    std::string name = utterance.audio.string();
    if (segment.offset > 0) name += fmt::format("@{}", segment.offset);
    if (!names.insert(name).second) name += fmt::format(" ({})", utterance.id);
    inputs.push_back({.name = std::move(name),
                      .audio = utterance.audio,
                      .output = leaves ? id.filename() : id,
                      .id = utterance.id,
                      .reference = utterance.text,
                      .segment = segment,
                      .language = utterance.language,
                      .own_request = !utterance.boost.empty() || utterance.allowed.has_value()});
  }
  return inputs;
}

using Complain = std::function<void(const UserError&)>;

std::vector<TranscribeInput> of_folder(const fs::path& folder, const Complain& complain) {
  std::vector<TranscribeInput> inputs;
  std::vector<std::string> notices;
  std::vector<UserError> skipped;
  const std::vector<fs::path> files = files_below(folder, media_endings(), &notices, &skipped);
  for (const std::string& notice : notices) print_message("rtfx: notice: {}\n", printable(notice));
  for (const UserError& error : skipped) complain(error);
  for (const fs::path& file : files) {
    inputs.push_back({.name = file.string(),
                      .audio = file,
                      .output = file.lexically_relative(folder).replace_extension(),
                      .reference = {}});
  }
  return inputs;
}

/// Appends the inputs that `list` returns. An error costs no other input.
template <class List>
void append(std::vector<TranscribeInput>& inputs, const Complain& complain, const List& list) {
  try {
    for (TranscribeInput& input : list()) inputs.push_back(std::move(input));
  } catch (const UserError& e) {
    complain(e);
  } catch (const fs::filesystem_error& e) {  // of a folder that may not be read
    complain(UserError(e.path1().string(), e.code().message(), "check its permissions"));
  }
}

/// Lists a folder, a manifest or an audio file.
std::vector<TranscribeInput> of_path(const fs::path& path, const Complain& complain) {
  std::error_code error;  // of a file that cannot be looked at: reading it says why
  if (fs::is_directory(path, error)) return of_folder(path, complain);
  if (is_manifest(path)) return of_manifest(path);
  return {{.name = path.string(), .audio = path, .output = output_name(path), .reference = {}}};
}

std::vector<TranscribeInput> inputs_of(const fs::path& argument, ScratchFile& scratch,
                                       const Complain& complain) {
  if (argument == "-") return {standard_input(scratch)};
  std::error_code error;
  const bool is_pattern = argument.string().find_first_of("*?[") != std::string::npos;
  if (!is_pattern || fs::exists(argument, error)) return of_path(argument, complain);
  const std::vector<fs::path> found = files_like(argument.string());
  if (found.empty())
    throw UserError(argument.string(), "no file is called like that", "check the pattern");
  std::vector<TranscribeInput> inputs;
  for (const fs::path& path : found)
    append(inputs, complain, [&] { return of_path(path, complain); });
  return inputs;
}

/// Names from which the recordings' are chosen: the file's, that with its folder, and so on; the
/// last one has the file's ending.
std::vector<std::string> names_of(const TranscribeInput& input) {
  if (input.name == "-") return {"-"};
  const std::string offset =
      input.segment.offset > 0 ? fmt::format("@{}", input.segment.offset) : "";
  const fs::path path = input.audio.lexically_normal();
  std::vector<std::string> names = {path.stem().string() + offset};
  for (fs::path folder = path.parent_path(); folder.has_filename(); folder = folder.parent_path())
    names.push_back((folder.filename() / names.back()).string());
  names.push_back(path.string() + offset);
  for (std::string& name : names) name = recording_field(name);
  return names;
}

void name_recordings(std::vector<TranscribeInput>& inputs) {
  std::vector<std::vector<std::string>> names;
  for (const TranscribeInput& input : inputs) names.push_back(names_of(input));
  std::vector<size_t> length(inputs.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, std::vector<size_t>> owners;
    for (size_t i = 0; i < inputs.size(); ++i) owners[names[i][length[i]]].push_back(i);
    for (const auto& [name, of] : owners) {
      if (of.size() == 1) continue;
      for (const size_t i : of) {
        if (length[i] + 1 == names[i].size()) continue;
        ++length[i];
        changed = true;
      }
    }
  }
  std::set<std::string> taken;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = names[i][length[i]];
    inputs[i].recording = name;
    for (int n = 2; !taken.insert(inputs[i].recording).second; ++n)
      inputs[i].recording = fmt::format("{}-{}", name, n);
  }
}

/// One input for each channel. A file that cannot be opened stays one input, whose reading says
/// why.
std::vector<TranscribeInput> separated(const std::vector<TranscribeInput>& inputs) {
  std::vector<TranscribeInput> all;
  std::map<std::pair<std::filesystem::path, int>, int> known;  // a manifest may cut one file often
  for (const TranscribeInput& input : inputs) {
    const auto [found, is_new] = known.try_emplace({input.audio, input.segment.track}, 1);
    int& channels = found->second;
    try {
      if (is_new) channels = media_channels(input.audio, input.segment.track);
    } catch (const UserError&) {
    }
    for (int channel = 1; channel <= channels; ++channel) {
      TranscribeInput& one = all.emplace_back(input);
      one.segment.channel = channel;
      one.separate = true;
      one.output += fmt::format(".channel{}", channel);
    }
  }
  return all;
}

}  // namespace

TrackChoice track_choice(const std::string& channel, int track) {
  TrackChoice choice{{0, track}, channel == "separate"};
  if (choice.separate || channel == "mix") return choice;
  choice.audio.channel = parse_number<int>(channel).value_or(0);
  if (choice.audio.channel < 1)
    throw UserError("--channel", fmt::format("'{}' is no channel", channel),
                    "give mix, separate, or a number from 1 on");
  return choice;
}

std::string TranscribeInput::label() const {
  return separate ? fmt::format("{} (channel {})", name, segment.channel) : name;
}

int ScratchFile::descriptor() {
  if (file_.number >= 0) return file_.number;
  std::string name = (fs::temp_directory_path() / "rtfx-XXXXXX").string();
  file_.number = mkstemp(name.data());
  if (file_.number < 0) cannot_write(name, errno, kFreeSpace);
  unlink(name.c_str());
  return file_.number;
}

fs::path ScratchFile::path() const { return fmt::format("/proc/self/fd/{}", file_.number); }

std::vector<TranscribeInput> transcribe_inputs(
    const std::vector<fs::path>& arguments, const TrackChoice& choice, ScratchFile& scratch,
    const std::function<void(const UserError&)>& complain) {
  std::vector<TranscribeInput> all;
  bool reads_standard_input = false;
  for (const fs::path& argument : arguments) {
    append(all, complain, [&] {
      if (argument == "-" && std::exchange(reads_standard_input, true)) {
        throw UserError("-", "standard input is named twice, and can be read once", "name it once");
      }
      return inputs_of(argument, scratch, complain);
    });
  }
  name_recordings(all);
  for (TranscribeInput& input : all) {
    if (choice.audio.channel > 0) input.segment.channel = choice.audio.channel;
    if (choice.audio.track > 0) input.segment.track = choice.audio.track;
  }
  return choice.separate ? separated(all) : all;
}

namespace {

/// Moves what is there out of the way.
void keep_earlier(const std::filesystem::path& file) {
  require_regular_or_new(file);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  std::filesystem::path kept;
  for (int n = 1; kept.empty() || std::filesystem::exists(kept, error); ++n)
    kept = fmt::format("{}.{}", file.string(), n);
  std::filesystem::rename(file, kept, error);
  if (error) cannot_write(kept, error.value(), "free some space");
  print_message("rtfx: {}: the earlier one is kept as {}\n", printable(file.string()),
                printable(kept.filename().string()));
}

}  // namespace

TranscriptWriter::TranscriptWriter(TranscriptFormat format, std::filesystem::path folder,
                                   bool several)
    : format_(format), folder_(std::move(folder)), several_(several) {
  if (several_ && folder_.empty() && !is_concatenable(format_)) {
    const std::string& name = transcript_formats()[static_cast<size_t>(format_)];
    throw UserError("--format",
                    fmt::format("a file of {} holds one recording, here are several", name),
                    "give --output FOLDER");
  }
  std::error_code failed;
  if (!folder_.empty() && std::filesystem::exists(folder_, failed) &&
      !std::filesystem::is_directory(folder_, failed))
    throw UserError("--output", folder_.string() + " is not a folder", "name a folder");
}

std::filesystem::path TranscriptWriter::target_of(const TranscribeInput& input) {
  const std::string ending = file_ending(format_);
  const std::filesystem::path base = folder_ / input.output;
  std::filesystem::path target = fmt::format("{}.{}", base.string(), ending);
  if (written_.contains(target))
    target = fmt::format("{}{}.{}", base.string(), input.audio.extension().string(), ending);
  for (int n = 2; written_.contains(target); ++n)
    target = fmt::format("{}{}-{}.{}", base.string(), input.audio.extension().string(), n, ending);
  written_.insert(target);
  return target;
}

void TranscriptWriter::put(const TranscribeInput& input, const TranscribedFile& file) {
  const std::string text = formatted(file, format_);
  if (!folder_.empty()) {
    const std::filesystem::path target = target_of(input);
    keep_earlier(target);
    write_file(target, format_head(format_) + text);
    fmt::print("{}\n", printable(target.string()));
  } else {
    if (!begun_) fmt::print("{}", format_head(format_));
    if (several_ && format_ == TranscriptFormat::txt) fmt::print("{}: ", printable(input.label()));
    fmt::print("{}", text);
  }
  begun_ = true;
  // Results in files do not need standard output. Its error is reported at the end.
  if (folder_.empty())
    flush_output();
  else
    std::fflush(stdout);
}

}  // namespace rtfx
