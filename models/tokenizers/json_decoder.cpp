#include "models/tokenizers/json_decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/error.h"
#include "models/tokenizers/punctuation.h"
#include "models/tokenizers/utf8.h"

namespace rtfx {
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

/// A string that must be one character, of however many bytes.
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
  uint8_t byte = 0;
  const char* end = piece.data() + 5;
  const auto [stop, error] = std::from_chars(piece.data() + 3, end, byte, kHexadecimal);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
}

/// A run of byte pieces is one text if it is UTF-8 as a whole; if not, each is a U+FFFD.
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

}  // namespace

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

}  // namespace rtfx
