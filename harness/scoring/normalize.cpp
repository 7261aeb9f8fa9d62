#include "harness/scoring/normalize.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "base/error.h"
#include "harness/scoring/whisper_english.h"

namespace rtfx {
namespace {

std::vector<std::string> split(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string> words;
  for (size_t end = 0;;) {
    const size_t begin = text.find_first_not_of(kSpace, end);
    if (begin == std::string_view::npos) return words;
    end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
  }
}

std::vector<std::string> basic_english(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfkc = icu::Normalizer2::getNFKCInstance(status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  const auto utf16 = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  icu::UnicodeString normal = nfkc->normalize(utf16, status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  normal.toLower(icu::Locale::getRoot());

  icu::UnicodeString kept;
  for (int32_t i = 0; i < normal.length(); i = normal.moveIndex32(i, 1)) {
    const UChar32 c = normal.char32At(i);
    kept.append(u_isalnum(c) || c == '\'' ? c : UChar32{' '});
  }
  std::string utf8;
  return split(kept.toUTF8String(utf8));
}

}  // namespace

const std::vector<Normalizer>& normalizers() {
  static const std::vector<Normalizer> kAll = {{"none", 1, &split},
                                               {"basic_english", 1, &basic_english},
                                               {"whisper_english", 1, &whisper_english}};
  return kAll;
}

const Normalizer& find_normalizer(std::string_view name, std::string_view where) {
  for (const auto& normalizer : normalizers()) {
    if (normalizer.name == name) return normalizer;
  }
  std::vector<std::string> allowed;
  for (const auto& normalizer : normalizers()) allowed.push_back(normalizer.name);
  throw unknown_name(where, "normalizer", name, allowed);
}

}  // namespace rtfx
