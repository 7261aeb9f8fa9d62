#include "harness/scoring/decimal.h"

#include <algorithm>

#include "harness/scoring/code_points.h"

namespace rtfx {
namespace {

std::u32string without_leading_zeros(std::u32string digits) {
  digits.erase(0, std::min(digits.find_first_not_of(U'0'), digits.size()));
  return digits.empty() ? U"0" : digits;
}

}  // namespace

std::u32string decimal(uint64_t value) {
  const std::string digits = std::to_string(value);
  return {digits.begin(), digits.end()};
}

bool ends_in_zeros(std::u32string_view digits, size_t zeros) {
  const std::u32string_view last = digits.substr(digits.size() - std::min(zeros, digits.size()));
  return last.find_first_not_of(U'0') == last.npos && (last.size() == zeros || digits == U"0");
}

std::u32string sum(std::u32string_view a, std::u32string_view b) {
  std::u32string out(std::max(a.size(), b.size()) + 1, U'0');
  const auto digit = [](std::u32string_view text, size_t place) {
    return place < text.size() ? text[text.size() - 1 - place] - U'0' : 0;
  };
  char32_t carry = 0;
  for (size_t place = 0; place < out.size(); ++place) {
    const char32_t value = digit(a, place) + digit(b, place) + carry;
    out[out.size() - 1 - place] = U'0' + value % 10;
    carry = value / 10;
  }
  return without_leading_zeros(std::move(out));
}

std::u32string with_last_thousand_times(std::u32string_view digits, size_t zeros) {
  const size_t split = digits.size() - std::min<size_t>(3, digits.size());
  const std::u32string thousands = std::u32string(digits.substr(0, split)) + U"000";
  return sum(thousands, std::u32string(digits.substr(split)) + std::u32string(zeros, U'0'));
}

std::optional<std::u32string> times_power_of_ten(std::u32string_view numeral, size_t zeros) {
  std::u32string digits;
  size_t decimals = 0, dots = 0;
  for (const char32_t c : numeral) {
    if (c == U'.') {
      ++dots;
      continue;
    }
    if (!is_decimal_digit(c)) return std::nullopt;
    digits += U'0' + static_cast<char32_t>(digit_value(c));
    decimals += dots;
  }
  if (dots > 1 || digits.empty()) return std::nullopt;
  for (; decimals > zeros; --decimals) {
    if (digits.back() != U'0') return std::nullopt;
    digits.pop_back();
  }
  return without_leading_zeros(digits + std::u32string(zeros - decimals, U'0'));
}

}  // namespace rtfx
