// The same from samples on: what a request brings goes through encoder and search.
#pragma once

#include <vector>

#include "harness/stream/speech_streams.h"
#include "harness/stream/stream_server.h"

namespace rtfx {

class SpeechServer : public LoadServer {
 public:
  /// A request brings `samples` of its utterance, the last one what is left. Speech and audio must
  /// outlive the server.
  SpeechServer(SpeechStreams& speech, const std::vector<const std::vector<float>*>& audio,
               int64_t streams, int64_t samples, bool partial);
  ~SpeechServer() override;
  SpeechServer(const SpeechServer&) = delete;
  SpeechServer& operator=(const SpeechServer&) = delete;

  std::vector<bool> work(const std::vector<Request>& requests) override;
  StageSeconds stage_seconds() const override;

 private:
  struct Stream {
    size_t utterance = 0, given = 0;
    int64_t number = -1;  // in speech_; -1: between two utterances
  };

  SpeechStreams& speech_;
  const std::vector<const std::vector<float>*>& audio_;
  std::vector<Stream> streams_;
  size_t samples_;
  bool partial_;
  StageSeconds before_;  // of what speech_ did before
};

/// What comes of utterances that are there at once, by streams in which none is open and `streams`
/// can be.
std::vector<Hypothesis> in_one_piece(SpeechStreams& speech,
                                     const std::vector<const std::vector<float>*>& audio,
                                     int64_t streams);

}  // namespace rtfx
