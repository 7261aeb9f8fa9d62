// A streaming server that begins with samples: each request goes through encoder and search.
#pragma once

#include <vector>

#include "harness/stream/stream_server.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

class SpeechServer : public LoadServer {
 public:
  /// A request brings `samples` of its utterance, the last one what is left. Speech, of which
  /// `streams` streams and those that are pending can be open, and audio must outlive the server.
  SpeechServer(SpeechStreams& speech, const std::vector<const std::vector<float>*>& audio,
               int64_t streams, int64_t samples, bool partial);
  ~SpeechServer() override;
  SpeechServer(const SpeechServer&) = delete;
  SpeechServer& operator=(const SpeechServer&) = delete;

  /// One step of the encoder and the search. An utterance's last samples may need two: what is over
  /// then is pending, for a step that it shares with other streams' requests.
  Work work(const std::vector<Request>& requests) override;
  StageSeconds stage_seconds() const override;

 private:
  struct Stream {
    size_t utterance = 0, given = 0;
    int64_t number = -1;  // in speech_; -1: between two utterances
  };

  struct Outstanding {
    Request request;
    int64_t number;    // in speech_
    size_t utterance;  // that it ends
    bool ends;
  };

  SpeechStreams& speech_;
  const std::vector<const std::vector<float>*>& audio_;
  std::vector<Stream> streams_;
  std::vector<Outstanding> outstanding_;
  size_t samples_;
  bool partial_;
  StageSeconds before_;  // of what speech_ did before
};

/// The results of utterances that are complete from the start, decoded by `speech`. None of its
/// streams is open, and `streams` of them can be.
std::vector<Hypothesis> in_one_piece(SpeechStreams& speech,
                                     const std::vector<const std::vector<float>*>& audio,
                                     int64_t streams);

}  // namespace rtfx
