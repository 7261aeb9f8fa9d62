#include "speech/long_audio/decode_again.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "speech/long_audio/chunks.h"

namespace rtfx {
namespace {

struct CutRule {
  double most, context;  // seconds
};
constexpr std::array<CutRule, kMostDecodesAgain> kCuts = {{{10, 1}, {5, 0.5}}};

/// Divides `part` into pieces of at most `most` blocks.
std::vector<BlockRange> cut_at_quiet_places(std::span<const float> levels, BlockRange part,
                                            size_t most) {
  std::vector<BlockRange> pieces;
  for (size_t begin = part.begin; begin < part.end;) {
    size_t length = part.end - begin;
    if (length > most) length = best_cut(levels.subspan(begin, most), most / 2, most - 1).block;
    pieces.push_back({begin, begin + length});
    begin += length;
  }
  return pieces;
}

/// Returns the samples of `own` with `context` blocks on either side.
std::vector<float> samples_around(const HeardAudio& audio, BlockRange own, size_t context) {
  std::vector<float> samples((own.size() + 2 * context) * audio.block);
  const size_t begin = (audio.before + own.begin) * audio.block;  // first sample of its own blocks
  const size_t lead = context * audio.block;
  const size_t missing = lead - std::min(lead, begin);
  const size_t first = begin + missing - lead;
  if (first >= audio.samples.size()) return samples;
  const auto there = audio.samples.subspan(first);
  std::ranges::copy(there.first(std::min(there.size(), samples.size() - missing)),
                    samples.begin() + static_cast<ptrdiff_t>(missing));
  return samples;
}

/// Appends token i of `from` to `to`, moved by `blocks`.
void append_token(const FoundTokens& from, size_t i, int32_t blocks, FoundTokens& to) {
  const Hypothesis& h = from.hypothesis;
  to.hypothesis.tokens.push_back(h.tokens[i]);
  to.hypothesis.frames.push_back(h.frames[i] + blocks);
  if (!h.durations.empty()) to.hypothesis.durations.push_back(h.durations[i]);
  if (!from.evidence.runs.empty()) to.evidence.runs.push_back(from.evidence.runs[i]);
  if (!from.evidence.confidence.empty())
    to.evidence.confidence.push_back(from.evidence.confidence[i]);
  if (!from.judged.empty()) to.judged.push_back(from.judged[i]);
}

/// Appends those tokens of a piece to `to` that lie in the piece's own blocks.
void append_own(const FoundTokens& piece, BlockRange own, FoundTokens& to) {
  const Hypothesis& h = piece.hypothesis;
  const auto begin = static_cast<int32_t>(own.begin), size = static_cast<int32_t>(own.size());
  if (h.nan) return;
  for (size_t i = 0; i < h.tokens.size(); ++i)
    if (h.frames[i] >= 0 && h.frames[i] < size) append_token(piece, i, begin, to);
  to.hypothesis.score += h.score;
  if (!h.words) return;
  if (!to.hypothesis.words) to.hypothesis.words.emplace();
  for (const FoundWord& word : *h.words)
    if (word.frame >= 0 && word.frame < size)
      to.hypothesis.words->push_back({word.text, word.frame + begin});
}

int64_t count_words(const Hypothesis& h, const Tokenizer& tokenizer) {
  return h.words ? std::ssize(*h.words) : std::ssize(token_words(tokenizer, h.tokens));
}

bool is_confident(const FoundTokens& found) {
  return found.judged.empty() || aggregate(found.judged, "mean") >= kLeastConfidence;
}

}  // namespace

DecodeAgain::DecodeAgain(const HeardAudio& audio, std::vector<float> levels,
                         const LevelHistogram& heard, std::span<const size_t> token_blocks,
                         const WordlessRule& rule, const Tokenizer& tokenizer)
    : audio_(audio), levels_(std::move(levels)), heard_(heard), rule_(rule), tokenizer_(tokenizer) {
  for (const BlockRange& blocks : wordless_speech(levels_, heard_, token_blocks, rule_))
    parts_.push_back({{blocks}, {}});
  attempts_.resize(parts_.size());
}

bool DecodeAgain::done() const {
  return std::ranges::none_of(attempts_,
                              [](const Attempt& a) { return a.wanted || a.missing > 0; });
}

std::vector<AgainPiece> DecodeAgain::next() {
  std::vector<AgainPiece> pieces;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (!std::exchange(attempts_[p].wanted, false)) continue;
    const CutRule& cut = kCuts[static_cast<size_t>(parts_[p].decodes)];
    const auto blocks = [&](double seconds) {
      return static_cast<size_t>(std::lround(seconds / rule_.block_seconds));
    };
    const size_t context = blocks(cut.context);
    size_t number = 0;
    for (const BlockRange& own :
         cut_at_quiet_places(levels_, parts_[p].blocks, std::max<size_t>(2, blocks(cut.most)))) {
      pieces.push_back(
          {p, number++, own, static_cast<int64_t>(context), samples_around(audio_, own, context)});
    }
    attempts_[p].pieces.assign(number, {});
    attempts_[p].missing = number;
  }
  return pieces;
}

void DecodeAgain::take(const AgainPiece& piece, FoundTokens found) {
  Attempt& attempt = attempts_[piece.part];
  append_own(found, piece.own, attempt.pieces[piece.number]);
  if (--attempt.missing == 0) judge(parts_[piece.part], attempt);
}

/// Judges an attempt, all of whose pieces have a result.
void DecodeAgain::judge(AgainPart& part, Attempt& attempt) {
  FoundTokens all;
  for (const FoundTokens& piece : attempt.pieces) {
    const Hypothesis& h = piece.hypothesis;
    for (size_t i = 0; i < h.tokens.size(); ++i) append_token(piece, i, 0, all);
    all.hypothesis.score += h.score;
    if (!h.words) continue;
    if (!all.hypothesis.words) all.hypothesis.words.emplace();
    std::ranges::copy(*h.words, std::back_inserter(*all.hypothesis.words));
  }
  ++part.decodes;
  const int64_t words = count_words(all.hypothesis, tokenizer_);
  if (words > part.words && is_confident(all)) {
    part.words = words;
    part.found = std::move(all);
  }
  std::vector<size_t> tokens;
  for (const int32_t frame : part.found.hypothesis.frames)
    tokens.push_back(static_cast<size_t>(frame) - part.blocks.begin);
  WordlessRule rule = rule_;
  rule.shortest /= 2;
  rule.whole = false;
  const auto levels = std::span(levels_).subspan(part.blocks.begin, part.blocks.size());
  const bool left = part.words == 0 || !wordless_speech(levels, heard_, tokens, rule).empty();
  attempt.wanted = left && part.decodes < kMostDecodesAgain;
}

bool has_token_in(const Hypothesis& h, BlockRange blocks) {
  return std::ranges::any_of(h.frames, [&](int32_t frame) {
    return std::cmp_greater_equal(frame, blocks.begin) && std::cmp_less(frame, blocks.end);
  });
}

void insert_part(const AgainPart& part, Hypothesis& to, TokenEvidence& evidence) {
  const Hypothesis& more = part.found.hypothesis;
  if (part.words == 0 || has_token_in(to, part.blocks)) return;
  const auto begin = static_cast<int32_t>(part.blocks.begin);
  const auto place = std::ranges::lower_bound(to.frames, begin) - to.frames.begin();
  // Inserts after as many elements as there are tokens before the part.
  const auto insert = [&](auto& list, const auto& added) {
    list.insert(list.begin() + std::min(place, std::ssize(list)), added.begin(), added.end());
  };
  insert(to.tokens, more.tokens);
  insert(to.durations, more.durations);
  insert(to.frames, more.frames);
  insert(evidence.runs, part.found.evidence.runs);
  insert(evidence.confidence, part.found.evidence.confidence);
  if (evidence.runs.size() != to.tokens.size()) evidence.runs.clear();
  if (evidence.confidence.size() != to.tokens.size()) evidence.confidence.clear();
  to.score += more.score;
  if (!more.words) return;
  if (!to.words) to.words.emplace();
  std::ranges::copy(*more.words, std::back_inserter(*to.words));
  std::ranges::stable_sort(*to.words, {}, &FoundWord::frame);
}

}  // namespace rtfx
