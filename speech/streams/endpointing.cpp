#include "speech/streams/endpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr std::array<std::string_view, 2> kKnownEnds = {"<EOU>", "<EOB>"};

/// Moves the elements from `first` on to a new list.
template <class Value>
std::vector<Value> split_off(std::vector<Value>& list, size_t first) {
  if (first >= list.size()) return {};
  const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<Value> rest(begin, list.end());
  list.erase(begin, list.end());
  return rest;
}

size_t first_end(const Hypothesis& h, const EndpointRules& rules) {
  const auto found =
      std::ranges::find_if(h.tokens, [&](const int32_t token) { return rules.is_end(token); });
  return static_cast<size_t>(found - h.tokens.begin());
}

/// Moves the tokens from number `first` on, and the words of a word table that begin with them.
Hypothesis split_off(Hypothesis& h, size_t first) {
  Hypothesis rest;
  if (first >= h.tokens.size()) return rest;
  if (h.words) {
    const int32_t frame = h.frames[first];
    const auto behind =
        std::ranges::find_if(*h.words, [&](const FoundWord& word) { return word.frame > frame; });
    rest.words = split_off(*h.words, static_cast<size_t>(behind - h.words->begin()));
  }
  rest.tokens = split_off(h.tokens, first);
  rest.frames = split_off(h.frames, first);
  rest.durations = split_off(h.durations, first);
  return rest;
}

}  // namespace

std::string_view name_of(EndpointRule rule) {
  switch (rule) {
    case EndpointRule::none:
      return "";
    case EndpointRule::stream:
      return "stream";
    case EndpointRule::pause:
      return "pause";
    case EndpointRule::token:
      return "token";
    case EndpointRule::vad:
      return "vad";
  }
  return "";
}

int64_t pause_frames(double seconds, double frame_seconds) {
  return std::max<int64_t>(1, std::lround(seconds / frame_seconds));
}

bool EndpointRules::is_end(int32_t token) const {
  return std::ranges::find(tokens, token) != tokens.end();
}

std::vector<int32_t> find_end_tokens(const Tokenizer& tokenizer,
                                     const std::vector<std::string>& names,
                                     std::string_view where) {
  if (names == std::vector<std::string>{"none"}) return {};
  const auto ids_of = [&](std::string_view piece) {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < tokenizer.size(); ++id)
      if (tokenizer.piece(id) == piece) ids.push_back(id);
    return ids;
  };
  std::vector<int32_t> found;
  const auto add = [&](const std::vector<int32_t>& ids) {
    found.insert(found.end(), ids.begin(), ids.end());
  };
  if (names.empty())
    for (const std::string_view piece : kKnownEnds) add(ids_of(piece));
  for (const std::string& name : names) {
    const std::vector<int32_t> ids = ids_of(name);
    if (ids.empty()) {
      throw UserError(where, fmt::format("the vocabulary has no token '{}'", name),
                      "give a token as the vocabulary spells it, for example <EOU>, or none");
    }
    add(ids);
  }
  return found;
}

DividedHypothesis divide_at_end_token(Hypothesis whole, const EndpointRules& rules,
                                      const Tokenizer& tokenizer) {
  DividedHypothesis divided;
  const size_t first = first_end(whole, rules);
  if (first < whole.tokens.size()) {
    divided.token = whole.tokens[first];
    divided.frame = whole.frames[first];
    divided.behind = split_off(whole, first);
    divided.behind.tokens.erase(divided.behind.tokens.begin());
    divided.behind.frames.erase(divided.behind.frames.begin());
    if (!divided.behind.durations.empty())
      divided.behind.durations.erase(divided.behind.durations.begin());
    for (Hypothesis& entry : whole.nbest) split_off(entry, first_end(entry, rules));
  }
  remove_end_tokens(whole, rules, tokenizer);  // a word table may hold them as words
  divided.before = std::move(whole);
  return divided;
}

void remove_end_tokens(Hypothesis& h, const EndpointRules& rules, const Tokenizer& tokenizer) {
  Hypothesis kept;
  for (size_t i = 0; i < h.tokens.size(); ++i) {
    if (rules.is_end(h.tokens[i])) continue;
    kept.tokens.push_back(h.tokens[i]);
    kept.frames.push_back(h.frames[i]);
    if (!h.durations.empty()) kept.durations.push_back(h.durations[i]);
  }
  h.tokens = std::move(kept.tokens);
  h.frames = std::move(kept.frames);
  h.durations = std::move(kept.durations);
  if (h.words) {
    std::erase_if(*h.words, [&](const FoundWord& word) {
      return std::ranges::any_of(
          rules.tokens, [&](const int32_t token) { return tokenizer.piece(token) == word.text; });
    });
  }
  for (Hypothesis& entry : h.nbest) remove_end_tokens(entry, rules, tokenizer);
}

}  // namespace rtfx
