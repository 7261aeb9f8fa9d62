// The rules that end an utterance before its stream ends (endpointing): a pause, a token, or a
// voice activity detector. The rule that applies first ends the utterance.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/hypotheses.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/streams/voice_activity.h"

namespace rtfx {

enum class EndpointRule { none, stream, pause, token, vad };
/// Returns the name of a rule, which is empty for none.
std::string_view name_of(EndpointRule rule);

struct EndpointRules {
  /// The number of encoder frames without a token, after the end of the last one, that end an
  /// utterance. 0 = off. The end of a token is that of a word in speech/transcript, so that
  /// utterances end where segments do.
  int64_t pause = 0;
  /// Each of these tokens ends the utterance in which it is emitted. It is not part of the text.
  std::vector<int32_t> tokens = {};
  /// With a detector, `silence` seconds without speech, after speech, end an utterance. Null = off.
  std::shared_ptr<const VoiceDetector> detector = nullptr;
  double silence = 0.5;

  bool any() const { return pause > 0 || !tokens.empty() || detector != nullptr; }
  bool is_end(int32_t token) const;
};

/// The limits of what users ask for, in seconds: the longest pause or silence, and the shortest
/// silence. A pause of 0 is off.
inline constexpr double kMostPauseSeconds = 3600, kLeastSilenceSeconds = 0.1;

/// Returns EndpointRules::pause for a pause of `seconds`, at least 1.
int64_t pause_frames(double seconds, double frame_seconds);

/// Returns the ids of the pieces `names`. Without names, returns those of the pieces <EOU> and
/// <EOB> that the vocabulary has. NVIDIA's parakeet_realtime_eou emits them at the end of an
/// utterance and of a backchannel ("uh-huh"). The name "none" stands for no token. Throws
/// UserError(where) for a piece that the vocabulary lacks.
std::vector<int32_t> find_end_tokens(const Tokenizer& tokenizer,
                                     const std::vector<std::string>& names, std::string_view where);

/// A result that is divided at an end token.
struct DividedHypothesis {
  Hypothesis before, behind;  // without the token, the first end token of the whole
  int32_t token = -1;         // -1 = there is no such token, and all is in `before`
  int32_t frame = 0;          // frame of the token
};
DividedHypothesis divide_at_end_token(Hypothesis whole, const EndpointRules& rules,
                                      const Tokenizer& tokenizer);

/// Removes all end tokens from a result.
void remove_end_tokens(Hypothesis& hypothesis, const EndpointRules& rules,
                       const Tokenizer& tokenizer);

}  // namespace rtfx
