// Measures how late a rule ends the utterances of live streams (speech/streams/endpointing.h).
// Delays are in seconds of audio; the time that the computation takes does not count.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/config/stream_settings.h"
#include "harness/results/records.h"
#include "models/acoustic_model.h"
#include "speech/pipeline/pipeline.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

/// Returns the rule of the settings. Throws UserError if the model lacks a token that the rule
/// needs, and for a file that is no detector.
EndpointRules endpoint_rules(const EndpointSettings& endpoint, const AcousticModel& model);

struct EndpointFigures {
  int64_t ends = 0;    // utterances with words that the rule ended
  int64_t early = 0;   // ends after which the recording has more words
  int64_t missed = 0;  // recordings whose last words became final only at the end of the stream
  std::vector<double> delays;  // seconds from the end of the last word until the text was final
};

/// Streams each recording, followed by `silence` seconds of silence, `streams` of them at a time.
/// Each stream gets `samples` samples at a time, and then all work that these allow is done.
/// `speech` must have no open stream.
EndpointFigures measure_endpoint(SpeechStreams& speech, const Clips& audio, int64_t streams,
                                 int64_t samples, double silence, const ModelConfig& config);

/// Returns the figures as the journal has them.
record::EndpointRun endpoint_run(const EndpointSettings& endpoint, const EndpointFigures& figures);

}  // namespace rtfx
