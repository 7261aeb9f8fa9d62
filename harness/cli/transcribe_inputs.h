// What `rtfx transcribe` is given: files, folders, patterns, manifests, standard input.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace rtfx {

struct TranscribeInput {
  std::string name;             // as it is printed; "-" for standard input
  std::filesystem::path audio;  // as it can be opened
  /// Of its output, without ending: the file's own name, below the folder that was named.
  std::filesystem::path output;
  std::optional<std::string> reference;  // of a manifest
};

/// A folder of this process's own for copies, made when it is asked for, and gone at the end.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Throws UserError where it cannot be made.
  const std::filesystem::path& path();

 private:
  std::filesystem::path path_;
};

/// A folder stands for all files with sound below it, a pattern (`*`, `?`, `[...]`) that no file is
/// called for those it matches, "-" for standard input, whose bytes are copied to a file in
/// `scratch`, and a manifest (.json, .jsonl) for its utterances. Anything else is an
/// audio file, and is looked at when it is read. `complain` hears of what stands for nothing or
/// cannot be read; the others are returned, in the order given.
std::vector<TranscribeInput> transcribe_inputs(
    const std::vector<std::filesystem::path>& arguments, ScratchFolder& scratch,
    const std::function<void(const UserError&)>& complain);

}  // namespace rtfx
