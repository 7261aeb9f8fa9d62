// Reader of the ARPA format of back-off n-gram models, as SRILM and KenLM write it: a section
// \data\ with the number of n-grams of each order, a section \n-grams: for each order, \end\.
// Any words; knows nothing of tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_lines.h"

namespace rtfx {

/// One n-gram; the views are valid while it is being visited.
struct ArpaEntry {
  std::span<const std::string_view> words;  // oldest first
  float log10_probability = 0;              // at most 0
  float log10_backoff = 0;                  // 0 where the line has none
};

/// Every complaint is a UserError with file and line.
class ArpaReader {
 public:
  /// Of a back-off weight, without its sign: sums of ten stay finite.
  static constexpr float kMostBackoff = 1e30F;

  /// Opens the file (plain or gzip) and reads \data\.
  explicit ArpaReader(const std::filesystem::path& path);

  /// counts()[n - 1]: n-grams of order n that \data\ announces.
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t order() const { return static_cast<int64_t>(counts_.size()); }

  /// Reads the section of order n = 1, 2, ..., each once and in this order. Words are separated by
  /// spaces and tabs only: other white space of Unicode may be a word.
  void read_section(int64_t n, const std::function<void(const ArpaEntry&)>& visit);

  /// Reads \end\.
  void read_end();

  /// Of the entry that is being visited, from 1.
  int64_t line_number() const { return lines_.number(); }
  /// "file:12", for complaints about a line.
  std::string where(int64_t line) const;
  std::string where() const { return where(line_number()); }

 private:
  bool next_line();
  void expect(const std::string& header);

  TextLines lines_;
  std::string_view line_;  // the current one, not blank
  bool at_end_ = false;
  std::vector<int64_t> counts_;
};

}  // namespace rtfx
