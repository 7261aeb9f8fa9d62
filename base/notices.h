// Notices about files, each kind once: a folder of recordings at 8 kHz is one line and not
// thousands.
#pragma once

#include <string>
#include <vector>

namespace rtfx {

class Notices {
 public:
  void add(const std::string& file, const std::string& notice);

  /// A line for each notice, in the order of first appearance: "a.wav: resampled from 8000 Hz to
  /// 16000 Hz", or "24 files, a.wav first: ..." where more files have it.
  std::vector<std::string> lines() const;

 private:
  struct Entry {
    std::string notice, first;
    size_t files = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace rtfx
