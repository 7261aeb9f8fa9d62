// Notices about files. Each kind is printed once, so that a folder of recordings at 8 kHz gives one
// line instead of thousands.
#pragma once

#include <string>
#include <vector>

namespace rtfx {

class Notices {
 public:
  void add(const std::string& file, const std::string& notice);

  /// Returns a line for each notice, in the order of first appearance: "a.wav: resampled from 8000
  /// Hz to 16000 Hz". If several files have the notice, the line is "24 files, a.wav first: ...".
  std::vector<std::string> lines() const;

 private:
  struct Entry {
    std::string notice, first;
    size_t files = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace rtfx
