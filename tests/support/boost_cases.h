// Phrases over small alphabets, and the boosting bonus of a token by its definition
// (algorithms/shared/biasing/phrase_tree.h). It is computed on whole texts, without an automaton.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/tokenizers/nemo_tokenizers.h"

namespace rtfx::test {

/// Returns the text of token i: the letter a + i, or from 26 on a character of its own.
inline std::string letter(int64_t token) {
  if (token < 26) return {static_cast<char>('a' + token)};
  const int64_t c = 0x4E00 + token;
  return {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
          static_cast<char>(0x80 | (c & 0x3F))};
}

/// Returns the model with a tokenizer that spells one letter with each token.
inline std::shared_ptr<const AcousticModel> with_letters(
    const std::shared_ptr<const AcousticModel>& model) {
  std::vector<std::string> labels;
  for (int64_t token = 0; token < model->config.vocabulary; ++token)
    labels.push_back(letter(token));
  std::const_pointer_cast<AcousticModel>(model)->tokenizer = character_tokenizer(labels);
  return model;
}

struct PlainBoost {
  using Tokens = std::vector<int32_t>;

  std::vector<std::pair<Tokens, double>> phrases;  // with their weights
  double scaling = 2, unknown = 0, scale = 1;

  static bool begins(const Tokens& whole, const Tokens& part) {
    return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
  }
  static Tokens part(const Tokens& tokens, size_t begin, size_t end) {
    return {tokens.begin() + static_cast<int64_t>(begin),
            tokens.begin() + static_cast<int64_t>(end)};
  }
  bool begins_phrase(const Tokens& tokens) const {
    return std::ranges::any_of(phrases, [&](const auto& p) { return begins(p.first, tokens); });
  }
  /// Returns N of phrase_tree.h for a path of tokens.
  double given(const Tokens& tokens) const {
    double sum = 0;
    for (size_t d = 1; d <= tokens.size(); ++d) {
      double best = -1e30;
      for (const auto& [phrase, weight] : phrases)
        if (begins(phrase, part(tokens, 0, d)))
          best =
              std::max(best, d == 1 ? weight : weight * scaling + std::log(static_cast<double>(d)));
      sum += best;
    }
    return sum;
  }
  double earned(const Tokens& tokens) const {
    std::vector<double> best(tokens.size() + 1, 0);
    for (size_t end = 1; end <= tokens.size(); ++end) {
      best[end] = best[end - 1];
      for (size_t begin = 0; begin < end; ++begin) {
        const Tokens inside = part(tokens, begin, end);
        if (std::ranges::any_of(phrases, [&](const auto& p) { return p.first == inside; }))
          best[end] = std::max(best[end], best[begin] + given(inside));
      }
    }
    return best.back();
  }
  double pending(const Tokens& tokens) const { return given(tokens) - earned(tokens); }
  /// Returns the longest suffix of `text`, from token `least` or later on, that begins a phrase.
  Tokens state(const Tokens& text, size_t least = 0) const {
    size_t begin = least;
    while (!begins_phrase(part(text, begin, text.size())) && begin < text.size()) ++begin;
    return part(text, begin, text.size());
  }

  /// Returns the bonus of `token` after `text`.
  double score(const Tokens& text, int32_t token) const {
    const Tokens from = state(text);
    for (Tokens at = from;; at = state(at, 1)) {
      Tokens longer = at;
      longer.push_back(token);
      if (begins_phrase(longer))
        return scale * (pending(at) - pending(from) + given(longer) - given(at));
      if (at.empty()) return scale * (unknown - pending(from));
    }
  }
  double end(const Tokens& text) const { return -scale * pending(state(text)); }

  /// Returns the decoder option for these phrases.
  nlohmann::json option() const {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [phrase, weight] : phrases) {
      std::string text;
      for (const int32_t token : phrase) text += letter(token);
      list.push_back({{"phrase", text}, {"weight", weight}});
    }
    return {
        {"phrases", list}, {"scale", scale}, {"depth_scaling", scaling}, {"unk_score", unknown}};
  }
};

/// Returns up to `most` random phrases of up to `longest` tokens. There are few tokens, so that
/// phrases overlap, begin with one another and hold one another.
inline PlainBoost random_boost(std::mt19937& random, int64_t tokens, int most, int longest) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  PlainBoost boost;
  const int64_t count = draw(1, most);
  for (int64_t i = 0; i < count; ++i) {
    PlainBoost::Tokens phrase;
    for (int64_t n = draw(1, longest); n > 0; --n)
      phrase.push_back(static_cast<int32_t>(draw(0, tokens - 1)));
    boost.phrases.emplace_back(phrase, 0.25 * static_cast<double>(draw(1, 8)));
  }
  boost.scaling = 0.5 * static_cast<double>(draw(1, 4));
  boost.unknown = draw(0, 2) == 0 ? -0.125 : 0;
  boost.scale = 0.5 * static_cast<double>(draw(1, 3));
  return boost;
}

inline std::vector<Phrase> phrases_of(const PlainBoost& boost) {
  const nlohmann::json option = boost.option();
  return parse_phrases(JsonView(option.at("phrases"), "test"));
}

/// A decoder of a model with letters, and a batch for it.
struct BoostedSearch {
  std::unique_ptr<Decoder> decoder;
  EncodedBatch batch;

  BoostedSearch(const std::string& name, const nlohmann::json& options,
                const std::shared_ptr<const AcousticModel>& model, EncodedBatch rows)
      : decoder(make_decoder(name, options, "")), batch(std::move(rows)) {
    decoder->prepare(with_letters(model), {});
  }
  std::vector<Hypothesis> operator()() const { return decoder->decode(batch).to_host(); }
};

}  // namespace rtfx::test
