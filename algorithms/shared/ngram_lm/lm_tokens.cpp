#include "algorithms/shared/ngram_lm/lm_tokens.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr int32_t kFirstCharacter = 100;

/// The code point of the one UTF-8 character that `word` is, -1 when it is anything else.
int32_t single_code_point(std::string_view word) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(word[i]); };
  const size_t length = byte(0) < 0x80   ? 1
                        : byte(0) < 0xC0 ? 0
                        : byte(0) < 0xE0 ? 2
                        : byte(0) < 0xF0 ? 3
                        : byte(0) < 0xF8 ? 4
                                         : 0;
  if (length != word.size()) return -1;
  int32_t code = length == 1 ? byte(0) : byte(0) & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return -1;
    code = code << 6 | (byte(i) & 0x3F);
  }
  return code;
}

bool is_number(std::string_view word) { return word.front() >= '0' && word.front() <= '9'; }

/// An id, which may be beyond the vocabulary, or one of the constants.
int32_t parse(std::string_view word) {
  if (word == "<s>") return LmTokens::kStart;
  if (word == "</s>") return LmTokens::kEnd;
  if (word == "<unk>" || word == "<UNK>") return LmTokens::kUnknown;
  if (is_number(word)) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    return error == std::errc() && end == word.data() + word.size() ? id : LmTokens::kNone;
  }
  const int32_t code = single_code_point(word);
  return code >= kFirstCharacter ? code - kFirstCharacter : LmTokens::kNone;
}

}  // namespace

int32_t LmTokens::add(std::string_view word, const std::string& where) {
  const int32_t id = parse(word);
  if (id == kNone) {
    throw UserError(where, fmt::format("'{}' is no token", word),
                    "the model must be trained on token ids: decimal numbers, or single characters "
                    "with code point id + 100");
  }
  if (id < 0) return id;
  if (id >= vocabulary()) {
    throw UserError(where,
                    fmt::format("'{}' is token {}, but the acoustic model has {} tokens", word, id,
                                vocabulary()),
                    "use a language model made with this model's tokenizer");
  }
  const Form form = is_number(word) ? Form::number : Form::character;
  if (form_ != Form::undecided && form != form_) {
    throw UserError(where,
                    fmt::format("'{}' is a {}, the tokens before it are not", word,
                                form == Form::number ? "number" : "character"),
                    "write all tokens in one form");
  }
  form_ = form;
  if (added_[static_cast<size_t>(id)]) {
    throw UserError(where, fmt::format("'{}' is there twice", word), "make the file again");
  }
  added_[static_cast<size_t>(id)] = true;
  return id;
}

int32_t LmTokens::find(std::string_view word) const {
  const int32_t id = parse(word);
  const bool added = id < 0 || (id < vocabulary() && added_[static_cast<size_t>(id)]);
  return added ? id : kNone;
}

}  // namespace rtfx
