#include "models/tokenizers/characters.h"

#include "models/tokenizers/punctuation.h"

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

}  // namespace rtfx
