#include "harness/scoring/code_points.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/error.h"

namespace rtfx {
namespace {

icu::UnicodeString to_icu(std::u32string_view text) {
  return icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                       static_cast<int32_t>(text.size()));
}

std::u32string from_icu(const icu::UnicodeString& text) {
  std::u32string out(static_cast<size_t>(text.countChar32()), U'\0');
  UErrorCode status = U_ZERO_ERROR;
  text.toUTF32(reinterpret_cast<UChar32*>(out.data()), static_cast<int32_t>(out.size()), status);
  // ICU warns that it has written no terminating zero. None is needed.
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  return out;
}

}  // namespace

std::u32string to_code_points(std::string_view utf8) {
  return from_icu(icu::UnicodeString::fromUTF8({utf8.data(), static_cast<int32_t>(utf8.size())}));
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  to_icu(text).toUTF8String(out);
  return out;
}

std::u32string lower_case(std::u32string_view text) {
  return from_icu(to_icu(text).toLower(icu::Locale::getRoot()));
}

std::u32string decomposed(std::u32string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfkd = icu::Normalizer2::getNFKDInstance(status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  const icu::UnicodeString normal = nfkd->normalize(to_icu(text), status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  return from_icu(normal);
}

bool is_space(char32_t c) {
  return (c >= 0x1c && c <= 0x1f) || u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool is_word_character(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return c == U'_' || u_isalpha(point) ||
         u_getIntPropertyValue(point, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_decimal_digit(char32_t c) { return u_isdigit(static_cast<UChar32>(c)); }

int digit_value(char32_t c) { return u_charDigitValue(static_cast<UChar32>(c)); }

bool is_nonspacing_mark(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK;
}

bool is_symbol(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_M_MASK | U_GC_S_MASK | U_GC_P_MASK)) != 0;
}

bool is_word_boundary(std::u32string_view text, size_t at) {
  const bool before = at > 0 && is_word_character(text[at - 1]);
  const bool after = at < text.size() && is_word_character(text[at]);
  return before != after;
}

std::vector<std::u32string> split_at_space(std::u32string_view text) {
  std::vector<std::u32string> words;
  for (size_t end = 0; end < text.size();) {
    size_t begin = end;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
  }
  return words;
}

}  // namespace rtfx
