#include "base/notices.h"

#include <fmt/format.h>

#include <algorithm>

namespace rtfx {

void Notices::add(const std::string& file, const std::string& notice) {
  auto found = std::ranges::find(entries_, notice, &Entry::notice);
  if (found == entries_.end()) found = entries_.insert(entries_.end(), {notice, file, 0});
  ++found->files;
}

std::vector<std::string> Notices::lines() const {
  std::vector<std::string> lines;
  lines.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    lines.push_back(entry.files == 1 ? fmt::format("{}: {}", entry.first, entry.notice)
                                     : fmt::format("{} files, {} first: {}", entry.files,
                                                   entry.first, entry.notice));
  }
  return lines;
}

}  // namespace rtfx
