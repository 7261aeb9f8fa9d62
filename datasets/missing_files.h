// Collects the missing files of a data set for one error.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"

namespace rtfx {

/// Collects the missing files of a set, so that its error says how many there are.
class MissingFiles {
 public:
  /// Adds the error for a file. A file that was added before does not count again.
  void add(const std::filesystem::path& file, const UserError& error) {
    if (files_.insert(file).second && files_.size() <= kShown) shown_.add(error);
  }

  bool empty() const { return files_.empty(); }

  /// Throws the errors of the first files. If several files are missing, also throws an error at
  /// `where` with their number. `all` counts the files of the set, and `noun` names them.
  void throw_any(const std::string& where, size_t all, const char* noun = "audio files") {
    if (files_.size() > 1)
      shown_.add({where, fmt::format("{} of {} {} are missing", files_.size(), all, noun)});
    shown_.throw_any();
  }

 private:
  static constexpr size_t kShown = 3;
  std::set<std::filesystem::path> files_;
  ErrorList shown_;
};

}  // namespace rtfx
