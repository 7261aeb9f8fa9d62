#include "models/tokenizers/aggregate.h"

#include "models/tokenizers/punctuation.h"
#include "models/tokenizers/speller.h"

namespace rtfx {
namespace {

constexpr std::string_view kSpace = "▁";

class Aggregate : public Tokenizer {
 public:
  using Languages = std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>;

  Aggregate(Languages languages, std::vector<std::string> pieces, int32_t unknown)
      : Tokenizer(punctuation_marks(pieces)),
        languages_(std::move(languages)),
        pieces_(std::move(pieces)),
        unknown_(unknown) {}

  std::string kind() const override { return "aggregate"; }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }
  int32_t unknown() const override { return unknown_; }
  /// Encodes with the language that needs the fewest pieces, the first of equals.
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> best;
    int32_t first = 0;
    for (const auto& [name, tokenizer] : languages_) {
      std::vector<int32_t> ids = Speller(*tokenizer)(std::string(text));
      for (int32_t& id : ids) id += first;
      if (!ids.empty() && (best.empty() || ids.size() < best.size())) best = std::move(ids);
      first += static_cast<int32_t>(tokenizer->size());
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

}  // namespace rtfx
