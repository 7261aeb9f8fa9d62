// A streaming server, which decodes the next frames of each stream's utterance as one batch.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "algorithms/decoder.h"
#include "harness/stream/stream_load.h"
#include "speech/pipeline/pipeline.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

/// An utterance as requests bring it.
struct StreamedUtterance {
  at::Tensor frames;          // [n, X], projected (Streams::project())
  std::vector<int64_t> ends;  // behind which frame each request ends (harness/config/config.h)
};

/// An utterance that has come to its end.
struct FinishedUtterance {
  size_t utterance;
  Hypothesis result;
  bool whole = true;  // from its beginning on
  /// The frames at which one step of the stream ended and the next one began, in order. A server of
  /// samples notes them only where it shows the text.
  std::vector<int64_t> borders = {};
};

/// At which of its requests each stream starts with its first utterance, whose number is the
/// stream's modulo that of the utterances: at the first one, or at random.
struct StreamStarts {
  std::optional<uint64_t> seed;  // random

  /// `requests`: of each utterance, at least 1. Returns a number below that for each stream.
  std::vector<size_t> of(int64_t streams, const std::vector<size_t>& requests) const;
};

/// Seconds of a server's stages, where they are told apart.
struct StageSeconds {
  double encoder = 0, search = 0;
};

/// The text so far of streams, as a reader sees it while the audio arrives.
class ShownText {
 public:
  ShownText(double frame_seconds, int64_t sample_rate)
      : frame_seconds_(frame_seconds), sample_rate_(static_cast<double>(sample_rate)) {}

  /// Takes the result so far of a stream, which has one utterance and of which so many samples have
  /// arrived.
  void show(int64_t stream, size_t samples, const Hypothesis& result);

  /// Seconds of audio from the end of an utterance's first token until it was shown.
  const std::vector<double>& first_delays() const { return first_delays_; }
  /// Seconds of audio from the end of the last token that is shown until now, at each update.
  const std::vector<double>& lags() const { return lags_; }
  /// The share of the tokens that were shown, and that a later text of the utterance lacks.
  double changed() const;

 private:
  double frame_seconds_, sample_rate_;
  std::map<int64_t, std::vector<int32_t>> tokens_;  // of the streams that have some
  std::vector<double> first_delays_, lags_;
  int64_t shown_ = 0, changed_ = 0;
};

/// Serves batches of requests of streams without end, which bring one utterance after the other.
class LoadServer {
 public:
  virtual ~LoadServer() = default;
  /// One request of a stream at most, or none while some are pending. The results of what it says
  /// is served are on the host on return.
  virtual Work work(const std::vector<Request>& requests) = 0;
  const std::vector<FinishedUtterance>& finished() const { return finished_; }
  /// Since it was made.
  virtual StageSeconds stage_seconds() const { return {}; }
  /// Has `text`, which outlives the server, see every result so far; a server of frames shows none.
  virtual void show_to(ShownText&) {}

 protected:
  std::vector<FinishedUtterance> finished_;
};

/// Streams without end: the utterances one after the other, a stream beginning with the utterance
/// of its own number. Open ones are closed in the end.
class StreamServer : public LoadServer {
 public:
  /// `partial`: with the best path so far after every request. Search and utterances must outlive
  /// the server.
  StreamServer(Streams& search, const std::vector<StreamedUtterance>& utterances, int64_t streams,
               bool partial, const StreamStarts& starts = {});
  ~StreamServer() override;
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  Work work(const std::vector<Request>& requests) override;

 private:
  struct Stream {
    size_t utterance = 0, request = 0;
    int64_t number = -1;  // in search_; -1: between two utterances
    bool whole = true;
  };

  Streams& search_;
  const std::vector<StreamedUtterance>& utterances_;
  std::vector<Stream> streams_;
  bool partial_;
  std::vector<PartialResult> partial_results_;  // of the last batch
};

// A streaming server that begins with samples: each request goes through encoder and search.

class SpeechServer : public LoadServer {
 public:
  /// A request brings `samples` of its utterance, the last one what is left. Speech, of which
  /// `streams` streams and those that are pending can be open, and audio must outlive the server.
  SpeechServer(SpeechStreams& speech, const Clips& audio, int64_t streams, int64_t samples,
               bool partial, const StreamStarts& starts = {});
  ~SpeechServer() override;
  SpeechServer(const SpeechServer&) = delete;
  SpeechServer& operator=(const SpeechServer&) = delete;

  /// One step of the encoder and the search. An utterance's last samples may need two: what is over
  /// then is pending, for a step that it shares with other streams' requests. So are requests that
  /// begin an utterance while as many streams are open as can be, and all later ones of their
  /// stream. A server with too much load then falls behind, as its latencies show.
  Work work(const std::vector<Request>& requests) override;
  StageSeconds stage_seconds() const override;
  void show_to(ShownText& text) override { shown_ = &text; }

 private:
  struct Stream {
    size_t utterance = 0, given = 0;
    int64_t number = -1;  // in speech_; -1: between two utterances
    bool whole = true;
  };

  struct Outstanding {
    Request request;
    int64_t number;    // in speech_
    size_t utterance;  // that it ends
    bool ends, whole;
  };

  /// A stream in speech_, for shown_.
  struct Watched {
    size_t given = 0;              // samples
    std::vector<int64_t> borders;  // as in FinishedUtterance
  };

  /// Takes from `requests`, and from those that wait already, what the encoder has room for: one of
  /// a stream at most, the oldest first.
  std::vector<Request> admit(const std::vector<Request>& requests);
  void watch(const SpeechUpdate& update);
  /// The borders of a stream that is closed and not watched any more.
  std::vector<int64_t> take_borders(int64_t number);

  SpeechStreams& speech_;
  const Clips& audio_;
  std::vector<Stream> streams_;
  std::vector<Request> waiting_;  // for room in speech_, in the order of their arrival
  std::vector<Outstanding> outstanding_;
  size_t samples_;
  bool partial_;
  ShownText* shown_ = nullptr;
  std::map<int64_t, Watched> watched_;
  StageSeconds before_;  // of what speech_ did before
};

/// Has the server decode every utterance from its beginning to its end, as fast as it can, and
/// returns them in their order. At most `max_batch` streams have a request at a time.
std::vector<FinishedUtterance> serve_all(LoadServer& server, int64_t streams, int64_t max_batch,
                                         size_t utterances);

/// The results of utterances that are complete from the start, decoded by `speech`. None of its
/// streams is open, and `streams` of them can be. Throws Interrupted between steps.
std::vector<Hypothesis> in_one_piece(SpeechStreams& speech, const Clips& audio, int64_t streams);

}  // namespace rtfx
