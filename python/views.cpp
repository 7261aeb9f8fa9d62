#include "python/views.h"

#include <iterator>
#include <utility>

namespace rtfx {

const char* ViewMemory::view(std::string text) {
  return texts_.emplace_back(std::move(text)).c_str();
}

const char* const* ViewMemory::view(const std::vector<std::string>& texts) {
  std::vector<const char*>& list = lists_of_texts_.emplace_back();
  for (const std::string& text : texts) list.push_back(view(text));
  return list.data();
}

void ViewMemory::view(const std::vector<TimedWord>& words, int64_t& count, const rtfx_word*& list) {
  std::vector<rtfx_word>& views = words_.emplace_back();
  for (const TimedWord& word : words)
    views.push_back({view(word.text), word.start, word.end, word.confidence});
  count = std::ssize(views);
  list = views.data();
}

void ViewMemory::view(const std::vector<DecodedAgain>& parts, int64_t& count,
                      const rtfx_decoded_again*& list) {
  std::vector<rtfx_decoded_again>& views = again_.emplace_back();
  for (const DecodedAgain& part : parts)
    views.push_back({part.start, part.end, part.words, part.decodes});
  count = std::ssize(views);
  list = views.data();
}

void ViewMemory::view(const std::vector<EndedUtterance>& utterances, const Tokenizer& tokenizer,
                      int64_t& count, const rtfx_utterance*& list) {
  std::vector<rtfx_utterance>& views = utterances_.emplace_back();
  for (const EndedUtterance& one : utterances) {
    rtfx_utterance& added = views.emplace_back();
    added.hypothesis = view(one.hypothesis, tokenizer);
    view(one.words, added.word_count, added.words);
    added.start = one.start;
    added.end = one.end;
    added.ended_by = view(one.ended_by);
  }
  count = std::ssize(views);
  list = views.data();
}

rtfx_hypothesis ViewMemory::view(Hypothesis hypothesis, const Tokenizer& tokenizer) {
  return view_of_kept(hypotheses_.emplace_back(std::move(hypothesis)), tokenizer);
}

rtfx_hypothesis ViewMemory::view_of_kept(const Hypothesis& hypothesis, const Tokenizer& tokenizer) {
  rtfx_hypothesis result{};
  result.is_nan = hypothesis.nan ? 1 : 0;
  if (hypothesis.nan) return result;
  result.text = view(text_of(hypothesis, tokenizer));
  result.score = hypothesis.score;
  result.token_count = std::ssize(hypothesis.tokens);
  result.tokens = hypothesis.tokens.data();
  result.frames = hypothesis.frames.data();
  if (!hypothesis.durations.empty()) result.durations = hypothesis.durations.data();
  if (hypothesis.words) {
    std::vector<const char*>& texts = lists_of_texts_.emplace_back();
    std::vector<int32_t>& frames = word_frames_.emplace_back();
    for (const FoundWord& word : *hypothesis.words) {
      texts.push_back(word.text.c_str());
      frames.push_back(word.frame);
    }
    result.has_words = 1;
    result.word_count = std::ssize(texts);
    result.words = texts.data();
    result.word_frames = frames.data();
  }
  std::vector<rtfx_hypothesis> entries;
  for (const Hypothesis& entry : hypothesis.nbest)
    entries.push_back(view_of_kept(entry, tokenizer));
  result.nbest_count = std::ssize(entries);
  result.nbest = nbest_.emplace_back(std::move(entries)).data();
  return result;
}

rtfx_partial ViewMemory::view(PartialResult partial, const Tokenizer& tokenizer) {
  const auto& tokens = partial.best.tokens;
  const std::vector<int32_t> stable(tokens.begin(), tokens.begin() + partial.stable);
  return {view(std::move(partial.best), tokenizer), partial.stable, view(tokenizer.text(stable)), 0,
          nullptr};
}

}  // namespace rtfx
