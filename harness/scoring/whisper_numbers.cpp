#include "harness/scoring/whisper_numbers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

namespace {

using Text = std::u32string;
using View = std::u32string_view;

enum class Kind { zero, ones, tens, multiplier, sign, currency, percent, special };

struct NumberWord {
  Kind kind;
  Text digits;    // digits of its value; for a multiplier, its zeros
  Text appended;  // "th" in "fourth", "s" in "fours"; the sign, for a sign or a currency
};

using Vocabulary = std::unordered_map<Text, NumberWord>;

void add_ones(Vocabulary& all) {
  const View names[] = {U"one",     U"two",       U"three",    U"four",     U"five",
                        U"six",     U"seven",     U"eight",    U"nine",     U"ten",
                        U"eleven",  U"twelve",    U"thirteen", U"fourteen", U"fifteen",
                        U"sixteen", U"seventeen", U"eighteen", U"nineteen"};
  all[U"zeroth"] = {Kind::ones, U"0", U"th"};
  for (size_t value = 1; value <= std::size(names); ++value) {
    const Text name(names[value - 1]), digits = decimal(value);
    all[name] = {Kind::ones, digits, U""};
    all[name + (value == 6 ? U"es" : U"s")] = {Kind::ones, digits, U"s"};
    if (value == 1)
      all[U"first"] = {Kind::ones, digits, U"st"};
    else if (value == 2)
      all[U"second"] = {Kind::ones, digits, U"nd"};
    else if (value == 3)
      all[U"third"] = {Kind::ones, digits, U"rd"};
    else if (value == 5)
      all[U"fifth"] = {Kind::ones, digits, U"th"};
    else if (value == 12)
      all[U"twelfth"] = {Kind::ones, digits, U"th"};
    else
      all[name + (name.back() == U't' ? U"h" : U"th")] = {Kind::ones, digits, U"th"};
  }
}

Vocabulary make_vocabulary() {
  Vocabulary all;
  for (const View name : {U"o", U"oh", U"zero"}) all[Text(name)] = {Kind::zero, U"0", U""};
  add_ones(all);
  size_t tens = 20;
  for (const View stem :
       {U"twent", U"thirt", U"fort", U"fift", U"sixt", U"sevent", U"eight", U"ninet"}) {
    all[Text(stem) + U"y"] = {Kind::tens, decimal(tens), U""};
    all[Text(stem) + U"ies"] = {Kind::tens, decimal(tens), U"s"};
    all[Text(stem) + U"ieth"] = {Kind::tens, decimal(tens), U"th"};
    tens += 10;
  }
  size_t zeros = 0;
  for (const View name :
       {U"hundred", U"thousand", U"million", U"billion", U"trillion", U"quadrillion",
        U"quintillion", U"sextillion", U"septillion", U"octillion", U"nonillion", U"decillion"}) {
    zeros = zeros == 0 ? 2 : zeros == 2 ? 3 : zeros + 3;
    for (const View ending : {U"", U"s", U"th"})
      all[Text(name) + Text(ending)] = {Kind::multiplier, Text(zeros, U'0'), Text(ending)};
  }
  for (const View name : {U"minus", U"negative"}) all[Text(name)] = {Kind::sign, U"", U"-"};
  for (const View name : {U"plus", U"positive"}) all[Text(name)] = {Kind::sign, U"", U"+"};
  for (const View name : {U"pound", U"pounds"}) all[Text(name)] = {Kind::currency, U"", U"£"};
  for (const View name : {U"euro", U"euros"}) all[Text(name)] = {Kind::currency, U"", U"€"};
  for (const View name : {U"dollar", U"dollars"}) all[Text(name)] = {Kind::currency, U"", U"$"};
  for (const View name : {U"cent", U"cents"}) all[Text(name)] = {Kind::currency, U"", U"¢"};
  for (const View name : {U"per", U"percent"}) all[Text(name)] = {Kind::percent, U"", U"%"};
  for (const View name : {U"and", U"double", U"triple", U"point"})
    all[Text(name)] = {Kind::special, U"", U""};
  return all;
}

const NumberWord* find_number_word(View word) {
  static const Vocabulary kAll = make_vocabulary();
  const auto found = kAll.find(Text(word));
  return found == kAll.end() ? nullptr : &found->second;
}

/// Returns whether the word is of that kind without an ending: "four", not "fourth".
bool is_plain(const NumberWord* word, Kind kind) {
  return word && word->kind == kind && word->appended.empty();
}

bool can_follow_point(const NumberWord* word) {
  return is_plain(word, Kind::zero) || is_plain(word, Kind::ones) || is_plain(word, Kind::tens);
}

/// Returns whether it is like "12" or "12.5", in the digits of any script.
bool is_numeral(View word) {
  const size_t dot = std::min(word.find(U'.'), word.size());
  const auto all_digits = [](View part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), is_decimal_digit);
  };
  return all_digits(word.substr(0, dot)) &&
         (dot == word.size() || all_digits(word.substr(dot + 1)));
}

/// Reads words from left to right and collects them into one number. Writes the number as soon as a
/// word does not continue it.
class NumberReader {
 public:
  explicit NumberReader(const std::vector<Text>& words) : words_(words) {}

  Text read() {
    for (at_ = 0; at_ < words_.size(); ++at_) read_word(words_[at_]);
    flush();
    return std::move(out_);
  }

 private:
  const NumberWord* word_at(size_t at) const {
    return at < words_.size() ? find_number_word(words_[at]) : nullptr;
  }
  const NumberWord* before() const { return at_ == 0 ? nullptr : word_at(at_ - 1); }
  const NumberWord* next() const { return word_at(at_ + 1); }
  bool next_is_numeral() const { return at_ + 1 < words_.size() && is_numeral(words_[at_ + 1]); }
  bool next_is_number() const { return next() || next_is_numeral(); }

  void read_word(const Text& word) {
    const bool signed_word = View(U"-+£€$¢").find(word.front()) != View::npos;
    const View unsigned_word = View(word).substr(signed_word ? 1 : 0);
    if (is_numeral(unsigned_word)) return read_numeral(word, unsigned_word, signed_word);
    const NumberWord* known = find_number_word(word);
    if (!known) return write_word(word);
    switch (known->kind) {
      case Kind::zero:
        return append(U"0");
      case Kind::ones:
        read_ones(*known);
        return end(known->appended);
      case Kind::tens:
        read_tens(*known);
        return end(known->appended);
      case Kind::multiplier:
        read_multiplier(*known);
        return end(known->appended);
      case Kind::sign:
        flush();
        if (next_is_number())
          prefix_ = known->appended;
        else
          write(word);
        return;
      case Kind::currency:
        if (!value_) return write(word);
        prefix_ = known->appended;
        return flush();
      case Kind::percent:
        return read_percent(word);
      case Kind::special:
        return read_special(word);
    }
  }

  void read_numeral(const Text& word, View numeral, bool has_sign) {
    if (value_ && is_text_ && value_->back() == U'.') {
      *value_ += word;  // decimals, or the parts of an IP address
      return;
    }
    flush();
    if (has_sign) prefix_ = word.substr(0, 1);
    const std::optional<Text> whole = times_power_of_ten(numeral, 0);
    set(whole ? *whole : Text(numeral), !whole);
  }

  void read_ones(const NumberWord& word) {
    const bool one_digit = word.digits.size() == 1;
    if (!value_) return set(word.digits, false);
    if (is_text_ || is_plain(before(), Kind::ones)) {
      // "one twenty" is the text 120, in which "three" takes the place of the zero.
      if (is_plain(before(), Kind::tens) && one_digit) value_->pop_back();
      return set(*value_ + word.digits, true);
    }
    add_or_append(word.digits, one_digit ? 1 : 2);
  }

  void read_tens(const NumberWord& word) {
    if (!value_) return set(word.digits, false);
    if (is_text_) return set(*value_ + word.digits, true);
    add_or_append(word.digits, 2);
  }

  void read_multiplier(const NumberWord& word) {
    if (!value_) return set(U"1" + word.digits, false);
    if (!is_text_) return set(with_last_thousand_times(*value_, word.digits.size()), false);
    const std::optional<Text> product = times_power_of_ten(*value_, word.digits.size());
    if (product) return set(*product, false);
    flush();
    set(U"1" + word.digits, false);
  }

  void read_percent(const Text& word) {
    if (!value_) return write(word);
    if (word == U"percent") return end(U"%");
    if (at_ + 1 < words_.size() && words_[at_ + 1] == U"cent") {
      ++at_;
      return end(U"%");
    }
    write_word(word);
  }

  void read_special(const Text& word) {
    if (!next_is_number()) return write_word(word);
    if (word == U"and") {
      if (!is_plain(before(), Kind::multiplier)) write_word(word);  // "two hundred and five"
    } else if (word == U"point") {
      if (can_follow_point(next()) || next_is_numeral()) append(U".");
    } else if (is_plain(next(), Kind::ones) || is_plain(next(), Kind::zero)) {
      for (int n = word == U"double" ? 2 : 3; n > 0; --n) append(next()->digits);
      ++at_;
    } else {
      write_word(word);
    }
  }

  void set(Text digits, bool is_text) {
    value_ = std::move(digits);
    is_text_ = is_text;
  }

  /// Appends digits to those that are there. A whole number 0 counts as no digits.
  void append(View digits) {
    const bool keep = value_ && (is_text_ || *value_ != U"0");
    set((keep ? *value_ : Text()) + Text(digits), true);
  }

  /// Adds or appends: "twenty" and "five" are 25, and "twenty five" and "six" are 256.
  void add_or_append(const Text& digits, size_t zeros_needed) {
    if (ends_in_zeros(*value_, zeros_needed))
      set(sum(*value_, digits), false);
    else
      set(*value_ + digits, true);
  }

  /// Ends the number with `appended`. If that is empty, the number continues.
  void end(const Text& appended) {
    if (appended.empty()) return;
    *value_ += appended;
    flush();
  }

  void flush() {
    if (value_) write(Text(*value_));
  }

  void write_word(const Text& word) {
    flush();
    write(word);
  }

  void write(const Text& word) {
    if (!out_.empty()) out_ += U' ';
    out_ += prefix_ + word;
    prefix_.clear();
    value_.reset();
  }

  const std::vector<Text>& words_;
  size_t at_ = 0;
  Text out_;
  Text prefix_;                // sign or currency of the word that is written next
  std::optional<Text> value_;  // digits so far
  bool is_text_ = false;       // the digits are a sequence, not a number for arithmetic
};

/// Joins the words with a space between them, numbers among them as digits. So "one oh one" becomes
/// 101, "twenty first" 21st, "two hundred and five" 205, "five dollars" $5, and "ten percent" 10%.
/// A number with a point stays text, and one that follows another is put behind its digits where it
/// cannot be added.
std::u32string read_numbers(const std::vector<std::u32string>& words) {
  return NumberReader(words).read();
}

/// Returns whether the word counts something without being an ordinal or a plural: "oh", "five",
/// "hundred".
bool is_number_word(std::u32string_view word) {
  const NumberWord* known = find_number_word(word);
  return can_follow_point(known) || is_plain(known, Kind::multiplier);
}

bool is_ascii_lower(char32_t c) { return c >= U'a' && c <= U'z'; }

size_t skip_space(View text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// Returns the end of "and a half" as whole words at `at`; npos if it is not there.
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

/// Returns the length of an ending of numbers that is the rest of a word at `at`.
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

/// Returns how many digits 0-9 there are at `at`, up to `most`.
size_t ascii_digits(View text, size_t at, size_t most) {
  size_t count = 0;
  while (count < most && at + count < text.size() && is_ascii_digit(text[at + count])) ++count;
  return count;
}

bool is_large_currency(char32_t c) { return c == U'€' || c == U'£' || c == U'$'; }

/// Returns the one or two digits at `at` that end a word; empty if there are none.
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
