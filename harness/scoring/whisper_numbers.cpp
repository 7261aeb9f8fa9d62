#include "harness/scoring/whisper_numbers.h"

#include <algorithm>

#include "harness/scoring/code_points.h"
#include "harness/scoring/number_words.h"

namespace rtfx {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

bool is_ascii_lower(char32_t c) { return c >= U'a' && c <= U'z'; }

size_t skip_space(View text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// The end of "and a half" as whole words at `at`; npos where it does not stand.
size_t end_of_and_a_half(View text, size_t at) {
  if (!is_word_boundary(text, at) || !text.substr(at).starts_with(U"and")) return View::npos;
  const size_t a = skip_space(text, at + 3);
  if (a == at + 3 || !text.substr(a).starts_with(U"a")) return View::npos;
  const size_t half = skip_space(text, a + 1);
  if (half == a + 1 || !text.substr(half).starts_with(U"half")) return View::npos;
  return is_word_boundary(text, half + 4) ? half + 4 : View::npos;
}

/// "two and a half" becomes "two point five"; after another word it stays. Nothing comes of one
/// without a word before it.
Text write_halves(View text) {
  Text out;
  const auto add = [&](View part) {
    if (!out.empty()) out += U' ';
    out += part;
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = end_of_and_a_half(text, at);
    if (end == View::npos) continue;
    const View part = text.substr(begin, at - begin);
    const std::vector<Text> words = split_at_space(part);
    if (!words.empty()) {
      add(part);
      add(is_number_word(words.back()) ? U"point five" : U"and a half");
    }
    begin = end;
    at = end - 1;
  }
  const View rest = text.substr(begin);
  if (!split_at_space(rest).empty()) add(rest);
  return out;
}

/// Where one of the endings of numbers stands at `at` as the rest of a word, its length.
size_t number_ending(View text, size_t at) {
  for (const View ending : {U"st", U"nd", U"rd", U"th", U"s"}) {
    if (text.substr(at).starts_with(ending) && is_word_boundary(text, at + ending.size()))
      return ending.size();
  }
  return 0;
}

/// "5km" becomes "5 km"; "5 th" becomes "5th".
Text separate_letters(View text) {
  Text spaced;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool letter_digit = i > 0 && ((is_ascii_lower(text[i - 1]) && is_ascii_digit(text[i])) ||
                                        (is_ascii_digit(text[i - 1]) && is_ascii_lower(text[i])));
    if (letter_digit) spaced += U' ';
    spaced += text[i];
  }
  Text out;
  for (size_t i = 0; i < spaced.size(); ++i) {
    out += spaced[i];
    if (!is_ascii_digit(spaced[i])) continue;
    const size_t after = skip_space(spaced, i + 1);
    if (after > i + 1 && number_ending(spaced, after) > 0) i = after - 1;
  }
  return out;
}

/// How many digits 0-9 stand at `at`, `most` at most.
size_t ascii_digits(View text, size_t at, size_t most) {
  size_t count = 0;
  while (count < most && at + count < text.size() && is_ascii_digit(text[at + count])) ++count;
  return count;
}

bool is_large_currency(char32_t c) { return c == U'€' || c == U'£' || c == U'$'; }

/// The one or two digits at `at` that end a word; empty where there are none.
View cents_at(View text, size_t at) {
  const size_t count = at < text.size() ? ascii_digits(text, at, 2) : 0;
  return count > 0 && is_word_boundary(text, at + count) ? text.substr(at, count) : View();
}

/// "$2 and ¢7" becomes "$2.07".
Text join_cents(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (!is_large_currency(text[i])) continue;
    const size_t digits = ascii_digits(text, i + 1, View::npos);
    size_t at = i + 1 + digits;
    if (digits == 0 || !text.substr(at).starts_with(U" ")) continue;
    at += text.substr(at).starts_with(U" and ") ? 5 : 1;
    if (at >= text.size() || text[at] != U'¢') continue;
    const View cents = cents_at(text, at + 1);
    if (cents.empty()) continue;
    out += text.substr(i + 1, digits);
    out += U'.';
    if (cents.size() == 1) out += U'0';
    out += cents;
    i = at + cents.size();
  }
  return out;
}

/// "$0.50" becomes "¢50". Any character counts as the point, as in the original.
Text write_cents(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool below_one = is_large_currency(text[i]) && i + 2 < text.size() &&
                           text[i + 1] == U'0' && text[i + 2] != U'\n';
    const View cents = below_one ? cents_at(text, i + 3) : View();
    if (cents.empty()) {
      out += text[i];
      continue;
    }
    out += U'¢';
    out += cents.size() == 2 && cents.front() == U'0' ? cents.substr(1) : cents;
    i += 2 + cents.size();
  }
  return out;
}

/// "1" and "1s" as words of their own become "one" and "ones".
Text write_one(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool alone = text[i] == U'1' && is_word_boundary(text, i) &&
                       (is_word_boundary(text, i + 1) ||
                        (text.substr(i + 1).starts_with(U"s") && is_word_boundary(text, i + 2)));
    if (alone)
      out += U"one";
    else
      out += text[i];
  }
  return out;
}

}  // namespace

std::u32string whisper_numbers(std::u32string_view text) {
  const std::vector<Text> words = split_at_space(separate_letters(write_halves(text)));
  return write_one(write_cents(join_cents(read_numbers(words))));
}

}  // namespace rtfx
