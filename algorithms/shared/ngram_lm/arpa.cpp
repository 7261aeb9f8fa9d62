#include "algorithms/shared/ngram_lm/arpa.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/numbers.h"

namespace rtfx {
namespace {

constexpr const char* kRemedy = "make or copy the ARPA file again";

/// Parses a float. A number that is too small for a float becomes 0, while parse_number() refuses
/// it.
std::optional<float> parse_float(std::string_view text) {
  if (const auto value = parse_number<float>(text)) return value;
  const auto wide = parse_number<double>(text);
  return wide && std::abs(*wide) < 1 ? std::optional<float>(0.0F) : std::nullopt;
}

constexpr bool is_separator(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_separator(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_separator(text.back())) text.remove_suffix(1);
  return text;
}

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (size_t i = 0; i < line.size(); ++i) {
    if (is_separator(line[i])) continue;
    const size_t begin = i;
    while (i < line.size() && !is_separator(line[i])) ++i;
    fields.push_back(line.substr(begin, i - begin));
  }
}

/// Parses a line such as "ngram 2=54446", which gives {2, 54446}.
std::optional<std::pair<int64_t, int64_t>> parse_count(std::string_view line) {
  constexpr std::string_view kPrefix = "ngram ";
  const size_t equals = line.find('=');
  if (!line.starts_with(kPrefix) || equals == line.npos) return std::nullopt;
  const auto order =
      parse_number<int64_t>(trimmed(line.substr(kPrefix.size(), equals - kPrefix.size())));
  const auto count = parse_number<int64_t>(trimmed(line.substr(equals + 1)));
  if (!order || !count || *count < 0) return std::nullopt;
  return std::pair(*order, *count);
}

}  // namespace

ArpaReader::ArpaReader(const std::filesystem::path& path) : lines_(path) {
  // Lines before \data\ are comments.
  while (next_line() && line_ != "\\data\\") {
  }
  if (at_end_) {
    throw UserError(path.string(), "there is no \\data\\ section",
                    "give an ARPA language model, plain or gzip");
  }
  while (next_line() && !line_.starts_with('\\')) {
    const auto count = parse_count(line_);
    if (!count || count->first != order() + 1) {
      throw UserError(where(), fmt::format("expected 'ngram {}=<count>'", order() + 1), kRemedy);
    }
    counts_.push_back(count->second);
  }
  if (counts_.empty()) throw UserError(where(), "\\data\\ announces no n-grams", kRemedy);
}

std::string ArpaReader::where(int64_t line) const {
  return fmt::format("{}:{}", lines_.path().string(), line);
}

/// Moves to the next line that is not blank.
bool ArpaReader::next_line() {
  while (lines_.next(line_)) {
    line_ = trimmed(line_);
    if (!line_.empty()) return true;
  }
  at_end_ = true;
  line_ = {};
  return false;
}

/// Throws UserError unless the current line is `header`.
void ArpaReader::expect(const std::string& header) {
  if (line_ == header) return;
  throw UserError(where(),
                  at_end_ ? fmt::format("the file ends where {} should stand", header)
                          : fmt::format("{} should stand here", header),
                  kRemedy);
}

void ArpaReader::read_section(int64_t n, const std::function<void(const ArpaEntry&)>& visit) {
  expect(fmt::format("\\{}-grams:", n));
  const int64_t announced = counts_[static_cast<size_t>(n - 1)];
  const size_t fewest = static_cast<size_t>(n) + 1;  // a probability and n words
  int64_t found = 0;
  std::vector<std::string_view> fields;
  ArpaEntry entry;
  while (next_line() && !line_.starts_with('\\')) {
    if (++found > announced) break;
    split(line_, fields);
    if (fields.size() < fewest || fields.size() > fewest + 1) {
      throw UserError(where(),
                      fmt::format("a line of \\{}-grams: has a probability, {} word{} and at most "
                                  "one back-off weight",
                                  n, n, n == 1 ? "" : "s"),
                      kRemedy);
    }
    const auto probability = parse_float(fields.front());
    const auto backoff =
        fields.size() > fewest ? parse_float(fields.back()) : std::optional<float>(0.0f);
    if (!probability || !(*probability <= 0)) {
      throw UserError(where(), fmt::format("'{}' is no log10 probability", fields.front()),
                      "it is a number that is not positive");
    }
    if (!backoff || !(std::abs(*backoff) <= kMostBackoff)) {
      throw UserError(where(), fmt::format("'{}' is no log10 back-off weight", fields.back()),
                      fmt::format("it is a number of at most {:g}", kMostBackoff));
    }
    entry = {std::span(fields).subspan(1, static_cast<size_t>(n)), *probability, *backoff};
    visit(entry);
  }
  if (found != announced) {
    throw UserError(where(),
                    fmt::format("\\data\\ announces {} {}-grams, the section has {}", announced, n,
                                found > announced ? "more" : std::to_string(found)),
                    kRemedy);
  }
}

void ArpaReader::read_end() { expect("\\end\\"); }

}  // namespace rtfx
