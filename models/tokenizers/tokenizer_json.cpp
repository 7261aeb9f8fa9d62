#include "models/tokenizers/tokenizer_json.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/numbers.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {

/// Rewrites a list of pieces. The text is the remaining pieces, joined.
using JsonDecoder = std::function<void(std::vector<std::string>& pieces)>;

namespace {

using nlohmann::json;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

/// Returns a string that must be one character, of any number of bytes.
std::string character(const json& decoder, const char* key, std::string_view where) {
  auto text = decoder.at(key).get<std::string>();
  size_t at = 0;
  if (text.empty() || next_code_point(text, at) < 0 || at != text.size()) {
    throw UserError(where, fmt::format("the decoder's '{}' is not one character", key),
                    "the tokenizer is damaged");
  }
  return text;
}

JsonDecoder metaspace(const json& decoder, std::string_view where) {
  const std::string mark = character(decoder, "replacement", where);
  const auto scheme = decoder.value("prepend_scheme", std::string("always"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw UserError(where, fmt::format("unknown prepend_scheme '{}'", scheme),
                    "always, first and never are supported");
  }
  if (scheme != "never" && !decoder.value("add_prefix_space", true)) {
    throw UserError(where, fmt::format("prepend_scheme '{}' without add_prefix_space", scheme),
                    "set prepend_scheme to never, as newer files do");
  }
  const bool prepended = scheme != "never";
  return [=](std::vector<std::string>& pieces) {
    for (size_t i = 0; i < pieces.size(); ++i)
      replace_all(pieces[i], mark, i == 0 && prepended ? "" : " ");
  };
}

JsonDecoder replace(const json& decoder, std::string_view where) {
  const json& pattern = decoder.at("pattern");
  const auto string = pattern.value("String", std::string());
  if (string.empty()) {
    throw UserError(where, "the decoder Replace has no string for a pattern",
                    "regular expressions are not supported");
  }
  const std::vector<std::string> strings = {string, decoder.at("content").get<std::string>()};
  check_pieces(strings, where);
  return [from = strings[0], to = strings[1]](std::vector<std::string>& pieces) {
    for (std::string& piece : pieces) replace_all(piece, from, to);
  };
}

std::optional<char> byte_of(std::string_view piece) {
  constexpr int kHexadecimal = 16;
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const auto byte = parse_number<uint8_t>(piece.substr(3, 2), kHexadecimal);
  return byte ? std::optional(static_cast<char>(*byte)) : std::nullopt;
}

/// Joins runs of byte pieces. A run is one text if it is UTF-8 as a whole. Otherwise each of its
/// pieces is a U+FFFD.
void fall_back_to_bytes(std::vector<std::string>& pieces) {
  std::vector<std::string> kept;
  std::string run;
  const auto end_run = [&] {
    if (is_utf8(run)) {
      if (!run.empty()) kept.push_back(run);
    } else {
      kept.insert(kept.end(), run.size(), "\uFFFD");
    }
    run.clear();
  };
  for (std::string& piece : pieces) {
    if (const auto byte = byte_of(piece)) {
      run += *byte;
    } else {
      end_run();
      kept.push_back(std::move(piece));
    }
  }
  end_run();
  pieces = std::move(kept);
}

JsonDecoder strip(const json& decoder, std::string_view where) {
  const auto count = [&](const char* key) {
    const json& value = decoder.at(key);
    if (!value.is_number_unsigned()) {
      throw UserError(where, fmt::format("the decoder's '{}' is no count", key),
                      "the tokenizer is damaged");
    }
    return value.get<uint64_t>();
  };
  return [content = character(decoder, "content", where), start = count("start"),
          stop = count("stop")](std::vector<std::string>& pieces) {
    for (std::string& piece : pieces) {
      std::string_view rest = piece;
      for (uint64_t n = 0; n < start && rest.starts_with(content); ++n)
        rest.remove_prefix(content.size());
      for (uint64_t n = 0; n < stop && rest.ends_with(content); ++n)
        rest.remove_suffix(content.size());
      piece = std::string(rest);
    }
  };
}

/// Removes spaces as clean_up_tokenization() of transformers does.
void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> kReplacements[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) replace_all(text, from, to);
}

JsonDecoder wordpiece(const json& decoder) {
  return [prefix = decoder.at("prefix").get<std::string>(),
          cleanup = decoder.at("cleanup").get<bool>()](std::vector<std::string>& pieces) {
    constexpr std::pair<const char*, const char*> kCleanup[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && pieces[i].starts_with(prefix))
        pieces[i].erase(0, prefix.size());
      else if (i > 0)
        pieces[i].insert(0, " ");
      if (!cleanup) continue;
      for (const auto& [from, to] : kCleanup) replace_all(pieces[i], from, to);
    }
  };
}

JsonDecoder json_decoder(const json& decoder, std::string_view where);

JsonDecoder sequence(const json& decoder, std::string_view where) {
  std::vector<JsonDecoder> steps;
  for (const json& step : decoder.at("decoders")) {
    if (step.value("type", std::string()) == "Sequence") {
      throw UserError(where, "the decoder is a Sequence in a Sequence", "list their decoders");
    }
    steps.push_back(json_decoder(step, where));
  }
  return [steps = std::move(steps)](std::vector<std::string>& pieces) {
    for (const JsonDecoder& step : steps) step(pieces);
  };
}

/// Implements the decoders of Hugging Face's tokenizers library 0.23: Metaspace, Replace of a
/// string, ByteFallback, Fuse, Strip, WordPiece, and a Sequence of these. Null puts a space between
/// pieces. Throws UserError for any other decoder, and nlohmann::json::exception for a wrong type.
JsonDecoder json_decoder(const json& decoder, std::string_view where) {
  if (decoder.is_null()) {
    return [](std::vector<std::string>& pieces) {
      for (size_t i = 1; i < pieces.size(); ++i) pieces[i].insert(0, " ");
    };
  }
  const auto type = decoder.at("type").get<std::string>();
  if (type == "Metaspace") return metaspace(decoder, where);
  if (type == "Replace") return replace(decoder, where);
  if (type == "ByteFallback") return fall_back_to_bytes;
  if (type == "Fuse") return [](std::vector<std::string>& pieces) { pieces = {joined(pieces)}; };
  if (type == "Strip") return strip(decoder, where);
  if (type == "WordPiece") return wordpiece(decoder);
  if (type == "Sequence") return sequence(decoder, where);
  throw UserError(where, fmt::format("the decoder '{}' is not known", type),
                  "Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece and Sequence are");
}

using nlohmann::json;

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(std::vector<std::string> pieces, std::vector<bool> special, int32_t unknown,
                JsonDecoder decoder, bool cleans_up)
      : pieces_(std::move(pieces)),
        special_(std::move(special)),
        unknown_(unknown),
        decoder_(std::move(decoder)),
        cleans_up_(cleans_up) {}

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
    if (cleans_up_) clean_up(text);
    return text;
  }

 private:
  std::vector<std::string> pieces_;
  std::vector<bool> special_;
  int32_t unknown_;
  JsonDecoder decoder_;
  bool cleans_up_;  // clean_up_tokenization_spaces
};

UserError damaged(std::string_view where, std::string_view problem) {
  return UserError(where, problem, "give the tokenizer.json of a Parakeet model");
}

/// Parses the file without its merges, which only splitting text needs. All other parts that count
/// are flat, so a deep file is damaged.
json parse(const std::string& bytes, std::string_view where) {
  constexpr int kDepth = 32;
  size_t values = 0;
  const auto keep = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDepth) throw damaged(where, "JSON nested too deeply");
    if (event != json::parse_event_t::key) {
      // A piece is an array, with at most three events and two values.
      if (++values > 8 * kMostPieces) throw damaged(where, "too much JSON for a tokenizer");
      return true;
    }
    return !(depth == 2 && parsed == "merges");
  };
  return json::parse(bytes, keep);
}

/// The pieces by their ids.
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

  /// Returns the pieces 0 to `size` - 1.
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

std::string kind_of_model(const json& model) {
  // Old files have no type. Only the vocabulary of Unigram is a list.
  return model.value("type", std::string(model.at("vocab").is_array() ? "Unigram" : "BPE"));
}

/// Adds the model's pieces. Returns the id of its unknown piece, or -1 where it has none.
int32_t read_model(const json& model, Vocabulary& vocabulary, std::string_view where) {
  const json& vocab = model.at("vocab");
  const std::string type = kind_of_model(model);
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

/// The settings of tokenizer_config.json that change the text.
struct TokenizerConfig {
  bool cleans_up = false, cleans_up_bpe = false;
  std::set<std::string> special;  // where tokenizer.json does not say that a token is not special
  std::string padding;            // left out whatever tokenizer.json says
};

/// Returns the text of a token, which may be an object of its settings.
std::string content_of(const json& token) {
  return (token.is_object() ? token.at("content") : token).get<std::string>();
}

TokenizerConfig read_tokenizer_config(const json& file) {
  TokenizerConfig config;
  const auto flag = [&](const char* key) {
    const json value = file.value(key, json());
    return !value.is_null() && value.get<bool>();
  };
  config.cleans_up = flag("clean_up_tokenization_spaces");
  config.cleans_up_bpe =
      flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output");
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    const json token = file.value(key, json());
    if (!token.is_null()) config.special.insert(content_of(token));
  }
  if (const json padding = file.value("pad_token", json()); !padding.is_null())
    config.padding = content_of(padding);
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    for (const json& token : file.value(key, json())) config.special.insert(content_of(token));
  }
  for (const json& token : file.value("added_tokens_decoder", json())) {
    if (token.value("special", false)) config.special.insert(content_of(token));
  }
  return config;
}

std::shared_ptr<const Tokenizer> build(const json& file, const TokenizerConfig& config,
                                       int64_t size, std::string_view where) {
  Vocabulary vocabulary(where);
  const int32_t unknown = read_model(file.at("model"), vocabulary, where);
  std::set<std::string> special = config.special;
  for (const json& token : file.value("added_tokens", json::array())) {
    const json& content = token.at("content");
    vocabulary.add(content, token.at("id"));
    if (token.at("special").get<bool>()) {
      special.insert(content.get<std::string>());
    } else if (content != config.padding) {
      special.erase(content.get<std::string>());
    }
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
  return std::make_shared<const JsonTokenizer>(
      std::move(pieces), std::move(left_out), unknown < size ? unknown : -1,
      json_decoder(file.value("decoder", json()), where),
      config.cleans_up && (kind_of_model(file.at("model")) != "BPE" || config.cleans_up_bpe));
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_json(const std::string& json_bytes, int64_t vocabulary,
                                                std::string_view where,
                                                const std::string& config_bytes) {
  check_size(json_bytes, where);
  const std::string config_file =
      std::filesystem::path(where).replace_filename("tokenizer_config.json").string();
  check_size(config_bytes, config_file);
  TokenizerConfig config;
  try {
    if (!config_bytes.empty()) config = read_tokenizer_config(parse(config_bytes, config_file));
  } catch (const json::exception& e) {
    throw UserError(config_file, fmt::format("is damaged ({})", e.what()),
                    "give the file as save_pretrained() wrote it");
  }
  try {
    return build(parse(json_bytes, where), config, vocabulary, where);
  } catch (const json::parse_error& e) {
    throw damaged(where, fmt::format("not JSON (at byte {})", e.byte));
  } catch (const json::exception& e) {
    throw damaged(where, fmt::format("not a tokenizer ({})", e.what()));
  }
}

}  // namespace rtfx
