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

/// An utterance, divided into requests.
struct StreamedUtterance {
  at::Tensor frames;          // [n, X], projected (Streams::project())
  std::vector<int64_t> ends;  // request i ends behind frame ends[i] (requests.h)
};

/// An utterance that has ended.
struct FinishedUtterance {
  size_t utterance;
  Hypothesis result;
  bool whole = true;  // decoded from its beginning on
  /// Frames at which one step of the stream ended and the next one began, ascending. A server of
  /// samples records them only with show_to().
  std::vector<int64_t> borders = {};
};

/// The request with which each stream begins its first utterance. The first utterance of stream s
/// is s modulo the number of utterances. The request is the first one, or a random one.
struct StreamStarts {
  std::optional<uint64_t> seed;  // seed of random requests; none: the first request

  /// Returns the number of the first request of each stream. `requests` holds the number of
  /// requests of each utterance, at least 1.
  std::vector<size_t> of(int64_t streams, const std::vector<size_t>& requests) const;
};

/// Time that a server spends in each stage, in seconds. Both are 0 if the server does not time the
/// stages separately.
struct StageSeconds {
  double encoder = 0, search = 0;
};

/// Records the text of streams as a reader sees it while the audio arrives.
class ShownText {
 public:
  ShownText(double frame_seconds, int64_t sample_rate)
      : frame_seconds_(frame_seconds), sample_rate_(static_cast<double>(sample_rate)) {}

  /// Takes the present result of a stream, of which `samples` samples have arrived. A stream has
  /// one utterance.
  void show(int64_t stream, size_t samples, const Hypothesis& result);

  /// Returns the delay of each first token: seconds of audio from its end until it was shown.
  const std::vector<double>& first_delays() const { return first_delays_; }
  /// Returns the lag at each update: seconds of audio from the end of the last shown token until
  /// now.
  const std::vector<double>& lags() const { return lags_; }
  /// Returns the share of shown tokens that a later text of the utterance no longer has.
  double changed() const;

 private:
  double frame_seconds_, sample_rate_;
  std::map<int64_t, std::vector<int32_t>> tokens_;  // shown tokens, indexed by stream
  std::vector<double> first_delays_, lags_;
  int64_t shown_ = 0, changed_ = 0;
};

/// Serves batches of requests. Each stream brings one utterance after the other, without end.
class LoadServer {
 public:
  virtual ~LoadServer() = default;
  /// Works on a batch with at most one request of each stream. The batch may be empty while
  /// requests are pending. The results of all requests that it reports as served are on the host on
  /// return.
  virtual Work work(const std::vector<Request>& requests) = 0;
  const std::vector<FinishedUtterance>& finished() const { return finished_; }
  /// Returns the times since the server was made.
  virtual StageSeconds stage_seconds() const { return {}; }
  /// Has every result so far recorded in `text`, which must outlive the server. A server of frames
  /// shows none.
  virtual void show_to(ShownText&) {}

 protected:
  std::vector<FinishedUtterance> finished_;
};

/// A server of streams whose requests bring frames. A stream begins with the utterance of its own
/// number, and goes on with the next ones. The destructor closes open streams.
class StreamServer : public LoadServer {
 public:
  /// With `partial`, each request also returns the best path so far. Search and utterances must
  /// outlive the server.
  StreamServer(Streams& search, const std::vector<StreamedUtterance>& utterances, int64_t streams,
               bool partial, const StreamStarts& starts = {});
  ~StreamServer() override;
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  Work work(const std::vector<Request>& requests) override;

 private:
  struct Stream {
    size_t utterance = 0, request = 0;
    int64_t number = -1;  // number of the stream in search_; -1: between two utterances
    bool whole = true;
  };

  Streams& search_;
  const std::vector<StreamedUtterance>& utterances_;
  std::vector<Stream> streams_;
  bool partial_;
  std::vector<PartialResult> partial_results_;  // of the last batch
};

// A server of streams whose requests bring samples: each request passes through the encoder and the
// search.

class SpeechServer : public LoadServer {
 public:
  /// A request brings `samples` samples of its utterance, and the last request brings the rest.
  /// `speech` must have room for `streams` streams and for the pending ones. `speech` and `audio`
  /// must outlive the server.
  SpeechServer(SpeechStreams& speech, const Clips& audio, int64_t streams, int64_t samples,
               bool partial, const StreamStarts& starts = {});
  ~SpeechServer() override;
  SpeechServer(const SpeechServer&) = delete;
  SpeechServer& operator=(const SpeechServer&) = delete;

  /// Does one step of the encoder and the search. Two kinds of requests stay pending for a later
  /// step:
  /// - The last samples of an utterance may need two steps. The second one is shared with requests
  /// of other streams.
  /// - A request that begins an utterance waits while `speech` has no room for a further stream,
  /// and so do all later requests of its stream. So an overloaded server falls behind, and its
  /// latencies show it.
  Work work(const std::vector<Request>& requests) override;
  StageSeconds stage_seconds() const override;
  void show_to(ShownText& text) override { shown_ = &text; }

 private:
  struct Stream {
    size_t utterance = 0, given = 0;
    int64_t number = -1;  // number of the stream in speech_; -1: between two utterances
    bool whole = true;
  };

  struct Outstanding {
    Request request;
    int64_t number;    // number of the stream in speech_
    size_t utterance;  // number of the utterance that it ends
    bool ends, whole;
  };

  /// A stream of speech_ that show_to() follows.
  struct Watched {
    size_t given = 0;              // samples so far
    std::vector<int64_t> borders;  // as in FinishedUtterance
  };

  /// Takes requests from `requests` and from those that wait already, the oldest first. Takes at
  /// most one of each stream, and no more than the encoder has room for.
  std::vector<Request> admit(const std::vector<Request>& requests);
  void watch(const SpeechUpdate& update);
  /// Returns the borders of a closed stream, and forgets them.
  std::vector<int64_t> take_borders(int64_t number);

  SpeechStreams& speech_;
  const Clips& audio_;
  std::vector<Stream> streams_;
  /// Requests that wait for room in speech_, in the order of their arrival.
  std::vector<Request> waiting_;
  std::vector<Outstanding> outstanding_;
  size_t samples_;
  bool partial_;
  ShownText* shown_ = nullptr;
  std::map<int64_t, Watched> watched_;
  StageSeconds before_;  // times of speech_ before this server was made
};

/// Has the server decode every utterance from beginning to end, as fast as it can. Returns them in
/// their order. At most `max_batch` streams have a request at a time.
std::vector<FinishedUtterance> serve_all(LoadServer& server, int64_t streams, int64_t max_batch,
                                         size_t utterances);

/// Decodes utterances whose audio is complete from the start, `streams` of them at a time, and
/// returns their results. `speech` must have room for them and no open stream. Throws Interrupted
/// between steps.
std::vector<Hypothesis> in_one_piece(SpeechStreams& speech, const Clips& audio, int64_t streams);

}  // namespace rtfx
