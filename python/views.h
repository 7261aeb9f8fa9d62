// Results as structs of pointers, and the memory into which they point.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/streams.h"
#include "models/tokenizers/tokenizer.h"
#include "python/structs.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

/// An utterance that a rule has ended. Frames and seconds count from the start of its stream.
struct EndedUtterance {
  Hypothesis hypothesis;
  std::vector<TimedWord> words;
  double start = 0, end = 0;
  std::string ended_by;
};

/// The memory of views. It only grows, so that pointers into it stay valid as long as it lives.
class ViewMemory {
 public:
  ViewMemory() = default;
  ViewMemory(ViewMemory&&) = default;
  ViewMemory& operator=(ViewMemory&&) = default;

  /// Returns the view of a hypothesis, of which a copy is kept.
  rtfx_hypothesis view(Hypothesis hypothesis, const Tokenizer& tokenizer);
  rtfx_partial view(PartialResult partial, const Tokenizer& tokenizer);

  /// Fills `count` and `list` of a struct with views of words.
  void view(const std::vector<TimedWord>& words, int64_t& count, const rtfx_word*& list);
  void view(const std::vector<DecodedAgain>& parts, int64_t& count,
            const rtfx_decoded_again*& list);
  void view(const std::vector<EndedUtterance>& utterances, const Tokenizer& tokenizer,
            int64_t& count, const rtfx_utterance*& list);
  const char* view(std::string text);
  const char* const* view(const std::vector<std::string>& texts);

 private:
  /// Returns the view of a hypothesis that this object holds already.
  rtfx_hypothesis view_of_kept(const Hypothesis& hypothesis, const Tokenizer& tokenizer);

  std::deque<Hypothesis> hypotheses_;
  std::deque<std::string> texts_;
  std::deque<std::vector<const char*>> lists_of_texts_;
  std::deque<std::vector<int32_t>> word_frames_;
  std::deque<std::vector<rtfx_hypothesis>> nbest_;
  std::deque<std::vector<rtfx_word>> words_;
  std::deque<std::vector<rtfx_decoded_again>> again_;
  std::deque<std::vector<rtfx_utterance>> utterances_;
};

}  // namespace rtfx
