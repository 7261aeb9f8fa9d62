// Streams from samples to tokens: an encoder's steps (models/streaming) and a decoder's streams
// (algorithms/streams.h), a stream of one for each of the other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"

namespace rtfx {

/// The result of one step for one stream.
struct SpeechUpdate {
  int64_t stream = 0;
  bool ended = false;    // the utterance: `result` is final
  bool closed = false;   // the stream: its last frames are in
  int64_t first = 0;     // encoder frame of the stream that frames of `result` count from
  int64_t frames = 0;    // of the utterance so far
  PartialResult result;  // all of it stable where `ended`
};

/// The frame behind the last token: its own and its duration, at least one; -1 without tokens.
int64_t end_of(const Hypothesis& hypothesis);

/// Decoder::streams(); throws UserError where there are none.
std::unique_ptr<Streams> open_search(Decoder& decoder, const StreamLimits& limits);

/// Works on one thread. Errors are those of EncoderStreams and Streams.
class SpeechStreams {
 public:
  /// `silence`: so many encoder frames without a token, counted from the end of the last one, end
  /// an utterance, wherever in a chunk they lie; the stream goes on with a new one. The end of a
  /// token is that of a word in speech/transcript, so that utterances end where segments do. 0: an
  /// utterance ends with its stream. `decoder` is prepared for
  /// `model` and outlives this. Throws UserError where it takes no pieces.
  SpeechStreams(std::shared_ptr<const AcousticModel> model, Decoder& decoder,
                const StreamOptions& encoder, int64_t silence = 0);

  /// `prompt`: see EncoderStreams.
  int64_t open(std::optional<int64_t> prompt = std::nullopt);
  /// See Streams: of the utterance that an open stream is in.
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias);
  /// See EncoderStreams.
  void check(int64_t stream, std::span<const float> samples) { encoder_->check(stream, samples); }
  void push(int64_t stream, std::span<const float> samples) { encoder_->push(stream, samples); }
  void finish(int64_t stream) { encoder_->finish(stream); }
  /// Whether step() has something to do for the stream.
  bool ready(int64_t stream) const { return encoder_->waiting(stream); }
  /// Forgets the stream. Not needed once an update has said that it is closed.
  void close(int64_t stream);

  /// Encodes and searches the next chunk of every stream that has one, as far as there are rows;
  /// waits for the device. Nothing where no stream has one. Each stream has an update for each
  /// utterance that the chunk ends, and one for the utterance that goes on. `partial`: with the
  /// result so far of utterances that go on.
  std::vector<SpeechUpdate> step(bool partial = true);

  /// The result of an open stream's utterance, as far as it has been decoded.
  PartialResult partial(int64_t stream);

  const EncoderStreams& encoder() const { return *encoder_; }
  /// Seconds that steps have taken so far: features and encoder, and the search.
  double encoder_seconds() const { return encoder_seconds_; }
  double search_seconds() const { return search_seconds_; }

 private:
  struct Stream {
    int64_t search;                 // number in search_
    int64_t first = 0, frames = 0;  // as in SpeechUpdate
    int64_t last_end = -1;          // frame behind the last token of the utterance; -1: no token
  };
  SpeechUpdate update(int64_t number, Stream& stream, bool last, bool partial);
  /// Searches a row's frames, projected [1, T', X], up to each place where an utterance may end.
  void search_with_pauses(int64_t number, const at::Tensor& frames, bool last,
                          std::vector<SpeechUpdate>& updates);

  std::shared_ptr<const AcousticModel> model_;
  std::unique_ptr<EncoderStreams> encoder_;
  std::unique_ptr<Streams> search_;
  int64_t silence_;
  std::map<int64_t, Stream> streams_;
  double encoder_seconds_ = 0, search_seconds_ = 0;
};

}  // namespace rtfx
