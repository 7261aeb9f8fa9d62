#include "models/tokenizers/tokenizer_json.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "models/tokenizers/json_decoder.h"
#include "models/tokenizers/limits.h"
#include "models/tokenizers/punctuation.h"

namespace rtfx {
namespace {

using nlohmann::json;

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(std::vector<std::string> pieces, std::vector<bool> special, int32_t unknown,
                JsonDecoder decoder)
      : pieces_(std::move(pieces)),
        special_(std::move(special)),
        unknown_(unknown),
        decoder_(std::move(decoder)) {}

  std::string kind() const override { return "tokenizer.json"; }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }
  int32_t unknown() const override { return unknown_; }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    std::vector<std::string> kept;
    for (const int32_t id : ids) {
      if (!special_[static_cast<size_t>(id)]) kept.push_back(pieces_[static_cast<size_t>(id)]);
    }
    decoder_(kept);
    std::string text;
    for (const std::string& piece : kept) text += piece;
    return text;
  }

 private:
  std::vector<std::string> pieces_;
  std::vector<bool> special_;
  int32_t unknown_;
  JsonDecoder decoder_;
};

UserError damaged(std::string_view where, std::string_view problem) {
  return UserError(where, problem, "give the tokenizer.json of a Parakeet model");
}

/// The file without its merges, which only splitting text needs. Everything else that counts is
/// flat, so depth means damage.
json parse(const std::string& bytes, std::string_view where) {
  constexpr int kDepth = 32;
  size_t values = 0;
  const auto keep = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDepth) throw damaged(where, "JSON nested too deeply");
    if (event != json::parse_event_t::key) {
      // A piece is an array of three events and two values at most.
      if (++values > 8 * kMostPieces) throw damaged(where, "too much JSON for a tokenizer");
      return true;
    }
    return !(depth == 2 && parsed == "merges");
  };
  return json::parse(bytes, keep);
}

/// Pieces by id.
class Vocabulary {
 public:
  explicit Vocabulary(std::string_view where) : where_(where) {}

  void add(const json& piece, const json& id) {
    const std::string text = piece.get<std::string>();
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMostPieces)
      throw damaged(where_, fmt::format("the piece '{}' has no proper id", text));
    const auto [entry, is_new] = pieces_.emplace(id.get<int64_t>(), text);
    if (!is_new && entry->second != text) {
      throw damaged(where_, fmt::format("'{}' and '{}' have the same id {}", entry->second, text,
                                        entry->first));
    }
  }

  /// Pieces 0 to `size` - 1.
  std::vector<std::string> first(int64_t size) const {
    std::vector<std::string> pieces;
    for (const auto& [id, piece] : pieces_) {
      if (id != static_cast<int64_t>(pieces.size()) || id >= size) break;
      pieces.push_back(piece);
    }
    if (static_cast<int64_t>(pieces.size()) == size) return pieces;
    throw UserError(
        where_,
        fmt::format("the tokenizer has no piece {}, the model {} tokens", pieces.size(), size),
        "tokenizer and weights do not belong together");
  }

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.rbegin()->first + 1; }
  const std::string& last() const { return pieces_.rbegin()->second; }
  void drop_last() { pieces_.erase(std::prev(pieces_.end())); }

  int32_t find(const std::string& piece) const {
    for (const auto& [id, text] : pieces_) {
      if (text == piece) return static_cast<int32_t>(id);
    }
    return -1;
  }

 private:
  std::string_view where_;
  std::map<int64_t, std::string> pieces_;
};

/// Adds the model's pieces; gives the id of its unknown one, -1 where it has none.
int32_t read_model(const json& model, Vocabulary& vocabulary, std::string_view where) {
  const json& vocab = model.at("vocab");
  // Old files name no type; only Unigram's vocabulary is a list.
  const auto type = model.value("type", std::string(vocab.is_array() ? "Unigram" : "BPE"));
  if (type == "Unigram") {
    for (uint64_t id = 0; id < vocab.size(); ++id) vocabulary.add(vocab.at(id).at(0), id);
    const json unknown = model.value("unk_id", json());
    if (unknown.is_null()) return -1;
    if (!unknown.is_number_unsigned() || unknown.get<uint64_t>() >= vocab.size())
      throw damaged(where, "unk_id is no piece's");
    return unknown.get<int32_t>();
  }
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel") {
    throw UserError(where, fmt::format("the model '{}' is not known", type),
                    "Unigram, BPE, WordPiece and WordLevel are");
  }
  for (const auto& [piece, id] : vocab.get_ref<const json::object_t&>()) vocabulary.add(piece, id);
  const json unknown = model.value("unk_token", json());
  return unknown.is_string() ? vocabulary.find(unknown.get<std::string>()) : -1;
}

std::shared_ptr<const Tokenizer> build(const json& file, int64_t size, std::string_view where) {
  Vocabulary vocabulary(where);
  const int32_t unknown = read_model(file.at("model"), vocabulary, where);
  std::set<std::string> special;
  for (const json& token : file.value("added_tokens", json::array())) {
    vocabulary.add(token.at("content"), token.at("id"));
    if (token.at("special").get<bool>()) special.insert(token["content"].get<std::string>());
  }
  if (size < 0) {
    const auto appended = [&](const std::string& piece) {
      return (piece == "<blank>" || piece == "<pad>") && special.contains(piece);
    };
    while (vocabulary.size() > 0 && appended(vocabulary.last())) vocabulary.drop_last();
    size = vocabulary.size();
  }
  std::vector<std::string> pieces = vocabulary.first(size);
  check_pieces(pieces, where);
  std::vector<bool> left_out;
  for (const std::string& piece : pieces) left_out.push_back(special.contains(piece));
  return std::make_shared<const JsonTokenizer>(std::move(pieces), std::move(left_out),
                                               unknown < size ? unknown : -1,
                                               json_decoder(file.value("decoder", json()), where));
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_json(const std::string& json_bytes, int64_t vocabulary,
                                                std::string_view where) {
  check_size(json_bytes, where);
  try {
    return build(parse(json_bytes, where), vocabulary, where);
  } catch (const json::parse_error& e) {
    throw damaged(where, fmt::format("not JSON (at byte {})", e.byte));
  } catch (const json::exception& e) {
    throw damaged(where, fmt::format("not a tokenizer ({})", e.what()));
  }
}

}  // namespace rtfx
