// Reads the ARPA format of back-off n-gram models, as SRILM and KenLM write it. The section
// `\data\` has the number of n-grams of each order. A section `\n-grams:` follows for each order,
// then `\end\`. The words may be tokens or whole words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace rtfx {

/// One n-gram. The views are valid during the call of `visit`.
struct ArpaEntry {
  std::span<const std::string_view> words;  // oldest first
  float log10_probability = 0;              // at most 0
  float log10_backoff = 0;                  // 0 if the line has none
};

/// Throws UserError with file and line for every fault.
class ArpaReader {
 public:
  /// The largest absolute value of a back-off weight: sums of ten weights stay finite.
  static constexpr float kMostBackoff = 1e30F;

  /// Opens the file (plain or gzip) and reads \data\.
  explicit ArpaReader(const std::filesystem::path& path);

  /// counts()[n - 1] is the number of n-grams of order n that \data\ announces.
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t order() const { return static_cast<int64_t>(counts_.size()); }

  /// Reads the section of order n and calls `visit` for each n-gram. Call it for n = 1, 2, ... in
  /// this order. Only spaces and tabs separate words: other white space of Unicode may be a word.
  void read_section(int64_t n, const std::function<void(const ArpaEntry&)>& visit);

  /// Reads \end\.
  void read_end();

  /// Returns the line of the current entry, counted from 1.
  int64_t line_number() const { return lines_.number(); }
  /// Returns "file:12", for messages about a line.
  std::string where(int64_t line) const;
  std::string where() const { return where(line_number()); }

 private:
  bool next_line();
  void expect(const std::string& header);

  TextLines lines_;
  std::string_view line_;  // the current line, not blank
  bool at_end_ = false;
  std::vector<int64_t> counts_;
};

}  // namespace rtfx
