#include "models/tokenizers/wordpiece.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "models/tokenizers/limits.h"
#include "models/tokenizers/punctuation.h"

namespace rtfx {
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

/// Lines end as Python's do in text files: LF, CR LF or CR. The last one may lack its end.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return lines;
}

}  // namespace

std::shared_ptr<const Tokenizer> wordpiece_tokenizer(const std::string& vocab_txt,
                                                     std::string_view where) {
  check_size(vocab_txt, where);
  std::vector<std::string> pieces = lines_of(vocab_txt);
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

}  // namespace rtfx
