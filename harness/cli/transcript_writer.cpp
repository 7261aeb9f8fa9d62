#include "harness/cli/transcript_writer.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"

namespace rtfx {
namespace {

/// Moves what is there out of the way.
void keep_earlier(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return;
  require_regular_or_new(file);
  std::filesystem::path kept;
  for (int n = 1; kept.empty() || std::filesystem::exists(kept); ++n)
    kept = fmt::format("{}.{}", file.string(), n);
  std::error_code error;
  std::filesystem::rename(file, kept, error);
  if (error) cannot_write(kept, error.value(), "free some space");
  fmt::print(stderr, "rtfx: {}: the earlier one is kept as {}\n", printable(file.string()),
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
  const std::string& ending = transcript_formats()[static_cast<size_t>(format_)];
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
    if (several_ && format_ == TranscriptFormat::txt) fmt::print("{}: ", printable(input.name));
    fmt::print("{}", text);
  }
  begun_ = true;
  std::fflush(stdout);
}

}  // namespace rtfx
