#include "models/tokenizers/nemo_tokenizers.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "models/tokenizers/pieces.h"
#include "models/tokenizers/spelling.h"

namespace rtfx {

namespace {

class Characters : public Tokenizer {
 public:
  explicit Characters(std::vector<std::string> labels)
      : Tokenizer(punctuation_marks(labels)), labels_(std::move(labels)) {}

  std::string kind() const override { return "characters"; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  std::string piece(int32_t id) const override { return labels_.at(static_cast<size_t>(id)); }
  int32_t unknown() const override { return -1; }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) text += labels_[static_cast<size_t>(id)];
    return text;
  }

 private:
  std::vector<std::string> labels_;
};

}  // namespace

std::shared_ptr<const Tokenizer> character_tokenizer(std::vector<std::string> labels) {
  check_pieces(labels, "labels");
  return std::make_shared<const Characters>(std::move(labels));
}

namespace {

constexpr std::string_view kContinues = "##";
constexpr const char* kSpecial[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};

class WordPieces : public Tokenizer {
 public:
  WordPieces(std::vector<std::string> pieces, int32_t unknown)
      : Tokenizer(punctuation_marks(pieces)), pieces_(std::move(pieces)), unknown_(unknown) {}

  std::string kind() const override { return "wordpiece"; }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }
  int32_t unknown() const override { return unknown_; }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::string_view piece = pieces_[static_cast<size_t>(ids[i])];
      if (i > 0 && piece.starts_with(kContinues))
        piece.remove_prefix(kContinues.size());
      else if (i > 0)
        text += ' ';
      text += piece;
    }
    return text;
  }

 private:
  std::vector<std::string> pieces_;
  int32_t unknown_;
};

/// Splits text into lines as Python does for text files, at LF, CR LF or CR. The last line may lack
/// its end.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  return lines;
}

}  // namespace

std::shared_ptr<const Tokenizer> wordpiece_tokenizer(const std::string& vocab_txt,
                                                     std::string_view where) {
  check_size(vocab_txt, where);
  std::vector<std::string> pieces = lines_of(without_byte_order_mark(vocab_txt, where));
  check_count(pieces.size(), where);
  check_pieces(pieces, where);
  std::unordered_map<std::string, int32_t> ids;
  for (const std::string& piece : pieces) {
    if (!ids.emplace(piece, static_cast<int32_t>(ids.size())).second) {
      throw UserError(fmt::format("{}:{}", where, ids.size() + 1),
                      fmt::format("the piece '{}' stands here for the second time", piece),
                      "give a WordPiece vocabulary, one piece a line");
    }
  }
  for (const char* special : kSpecial) {
    if (ids.emplace(special, static_cast<int32_t>(ids.size())).second) pieces.emplace_back(special);
  }
  return std::make_shared<const WordPieces>(std::move(pieces), ids.at(kSpecial[0]));
}

namespace {

constexpr std::string_view kSpace = "▁";

class Aggregate : public Tokenizer {
 public:
  using Languages = std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>;

  Aggregate(Languages languages, std::vector<std::string> pieces, int32_t unknown)
      : Tokenizer(punctuation_marks(pieces)),
        languages_(std::move(languages)),
        pieces_(std::move(pieces)),
        unknown_(unknown) {
    for (const auto& [name, tokenizer] : languages_) spellers_.emplace_back(*tokenizer);
  }

  std::string kind() const override { return "aggregate"; }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }
  int32_t unknown() const override { return unknown_; }
  /// All languages of one model are normalised in the same way.
  std::string normalized(std::string_view text) const override {
    return languages_.front().second->normalized(text);
  }
  /// Encodes with the language that needs the fewest pieces. Of equal ones, the first counts.
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> best;
    int32_t first = 0;
    for (size_t i = 0; i < languages_.size(); ++i) {
      std::vector<int32_t> ids = spellers_[i](std::string(text));
      for (int32_t& id : ids) id += first;
      if (!ids.empty() && (best.empty() || ids.size() < best.size())) best = std::move(ids);
      first += static_cast<int32_t>(languages_[i].second->size());
    }
    return best;
  }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      const std::string& piece = pieces_[static_cast<size_t>(id)];
      size_t begin = 0;
      for (size_t end; (end = piece.find(kSpace, begin)) != piece.npos; begin = end + kSpace.size())
        text.append(piece, begin, end - begin).push_back(' ');
      text.append(piece, begin);
    }
    return text;
  }

 private:
  Languages languages_;
  std::vector<Speller> spellers_;  // one for each language
  std::vector<std::string> pieces_;
  int32_t unknown_;
};

}  // namespace

std::shared_ptr<const Tokenizer> aggregate_tokenizer(
    const std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>& languages) {
  std::vector<std::string> pieces;
  int32_t unknown = -1;
  for (const auto& [name, tokenizer] : languages) {
    if (unknown < 0 && tokenizer->unknown() >= 0)
      unknown = static_cast<int32_t>(pieces.size()) + tokenizer->unknown();
    for (int32_t id = 0; id < tokenizer->size(); ++id) pieces.push_back(tokenizer->piece(id));
  }
  check_pieces(pieces, "aggregate tokenizer");
  return std::make_shared<const Aggregate>(languages, std::move(pieces), unknown);
}

namespace {

constexpr const char* kSpaceBytes = " \t\n\r\f\v";

/// Returns whether `text` begins with a tag: `<`, two small letters, `-`, two capitals, `>`.
bool begins_with_tag(std::string_view text) {
  constexpr std::string_view kForm = "<aa-AA>";
  if (text.size() < kForm.size()) return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char wanted = kForm[i], found = text[i];
    const bool fits = wanted == 'a'   ? found >= 'a' && found <= 'z'
                      : wanted == 'A' ? found >= 'A' && found <= 'Z'
                                      : found == wanted;
    if (!fits) return false;
  }
  return true;
}

std::string without_tags(std::string_view text) {
  constexpr size_t kTag = 7;  // bytes
  std::string kept;
  const auto trim_end = [&] { kept.erase(kept.find_last_not_of(kSpaceBytes) + 1); };
  for (size_t i = 0; i < text.size();) {
    if (!begins_with_tag(text.substr(i))) {
      kept += text[i++];
      continue;
    }
    trim_end();
    i += kTag;
  }
  trim_end();
  kept.erase(0, kept.find_first_not_of(kSpaceBytes));
  return kept;
}

class WithoutTags : public Tokenizer {
 public:
  explicit WithoutTags(std::shared_ptr<const Tokenizer> tagged) : tagged_(std::move(tagged)) {}

  std::string kind() const override { return tagged_->kind(); }
  int64_t size() const override { return tagged_->size(); }
  std::string piece(int32_t id) const override { return tagged_->piece(id); }
  int32_t unknown() const override { return tagged_->unknown(); }
  std::string normalized(std::string_view text) const override { return tagged_->normalized(text); }
  std::vector<int32_t> encode(std::string_view text) const override {
    return tagged_->encode(text);
  }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    return without_tags(tagged_->text(ids));
  }

 private:
  std::shared_ptr<const Tokenizer> tagged_;
};

}  // namespace

std::shared_ptr<const Tokenizer> without_language_tags(std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_shared<const WithoutTags>(std::move(tokenizer));
}

}  // namespace rtfx
