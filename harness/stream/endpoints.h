// How late a rule ends the utterances of live streams (speech/streams/utterance_ends.h), in seconds
// of audio. The time that the computation takes does not count.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/config/config.h"
#include "models/acoustic_model.h"
#include "speech/pipeline/pipeline.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

/// The rule alone. Throws UserError where the model has no such token, and for a file that is no
/// detector.
UtteranceEnds ends_of(const EndpointSettings& endpoint, const AcousticModel& model);

struct EndpointFigures {
  int64_t ends = 0;            // utterances with words that the rule ended
  int64_t early = 0;           // of them, those behind which the recording has more words
  int64_t missed = 0;          // recordings whose last words the end of the stream made final
  std::vector<double> delays;  // seconds from the end of the last word until the text was final
};

/// Streams each recording with `silence` seconds of silence behind it, `streams` at a time. Each
/// gets `samples` samples, and then all work that they allow is done. No stream of `speech` is
/// open.
EndpointFigures measure_endpoint(SpeechStreams& speech, const Clips& audio, int64_t streams,
                                 int64_t samples, double silence, const ModelConfig& config);

}  // namespace rtfx
