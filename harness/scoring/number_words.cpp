#include "harness/scoring/number_words.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "harness/scoring/code_points.h"
#include "harness/scoring/decimal.h"

namespace rtfx {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

enum class Kind { zero, ones, tens, multiplier, sign, currency, percent, special };

struct NumberWord {
  Kind kind;
  Text digits;    // of its value; of a multiplier its zeros
  Text appended;  // "th" of "fourth", "s" of "fours"; the sign of a sign or a currency
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

/// Whether the word is of that kind without an ending: "four", not "fourth".
bool is_plain(const NumberWord* word, Kind kind) {
  return word && word->kind == kind && word->appended.empty();
}

bool can_follow_point(const NumberWord* word) {
  return is_plain(word, Kind::zero) || is_plain(word, Kind::ones) || is_plain(word, Kind::tens);
}

/// "12" or "12.5", in the digits of any script.
bool is_numeral(View word) {
  const size_t dot = std::min(word.find(U'.'), word.size());
  const auto all_digits = [](View part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), is_decimal_digit);
  };
  return all_digits(word.substr(0, dot)) &&
         (dot == word.size() || all_digits(word.substr(dot + 1)));
}

/// Reads words from left to right and gathers them into one number, which is written as soon as a
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

  /// The digits behind those that are there; a whole number 0 is not there.
  void append(View digits) {
    const bool keep = value_ && (is_text_ || *value_ != U"0");
    set((keep ? *value_ : Text()) + Text(digits), true);
  }

  /// "twenty" and "five" are 25, "twenty five" and "six" 256.
  void add_or_append(const Text& digits, size_t zeros_needed) {
    if (ends_in_zeros(*value_, zeros_needed))
      set(sum(*value_, digits), false);
    else
      set(*value_ + digits, true);
  }

  /// The number ends with what is appended to it; with nothing, it goes on.
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
  std::optional<Text> value_;  // digits gathered so far
  bool is_text_ = false;       // whether they are digits in a row, not a number to reckon with
};

}  // namespace

std::u32string read_numbers(const std::vector<std::u32string>& words) {
  return NumberReader(words).read();
}

bool is_number_word(std::u32string_view word) {
  const NumberWord* known = find_number_word(word);
  return can_follow_point(known) || is_plain(known, Kind::multiplier);
}

}  // namespace rtfx
