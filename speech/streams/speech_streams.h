// Streams from samples to tokens: an encoder's steps (models/streaming) and a decoder's streams
// (algorithms/streams.h), a stream of one for each of the other.
//
// A stream has utterances. Rules end them before the stream does (utterance_ends.h). All rules look
// at encoder frames in order, so that an utterance ends at the same frame however the samples are
// cut into pieces. Only the frames before the end are searched for it. Those behind it belong to
// the next utterance.
//
// A model may stay on blank although somebody speaks (speech/pipeline/wordless_speech.h). Then
// encoder and search of that stream start over before this part, with chunks at other places, and
// work through the audio since then, which was kept. Tokens that were found before stay. It is
// tried twice at most for the same audio, with different chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"
#include "models/streaming/stream_features.h"
#include "speech/pipeline/wordless_speech.h"
#include "speech/streams/utterance_ends.h"

namespace rtfx {

/// The result of one step for one stream.
struct SpeechUpdate {
  int64_t stream = 0;
  EndRule rule = EndRule::none;  // that ended the utterance: then `result` is final
  int32_t end_token = -1;        // of the rule `token`
  bool closed = false;           // the stream: its last frames are in
  int64_t first = 0;             // encoder frame of the stream that frames of `result` count from
  int64_t frames = 0;            // of the utterance so far
  PartialResult result;          // all of it stable where it is final
  std::vector<WordlessPart> again;  // parts of the stream that are done with; blocks are frames

  bool ended() const { return rule != EndRule::none; }  // the utterance
};

/// The frame behind the last token: its own and its duration, at least one; -1 without tokens.
int64_t end_of(const Hypothesis& hypothesis);

/// Decoder::streams(); throws UserError where there are none.
std::unique_ptr<Streams> open_search(Decoder& decoder, const StreamLimits& limits);

/// So much of a part without words can be decoded again.
inline constexpr double kMostWordlessSeconds = 20;

/// Works on one thread. Errors are those of EncoderStreams and Streams.
class SpeechStreams {
 public:
  /// `ends`: the rules that end an utterance, wherever in a chunk; the stream goes on with a new
  /// one. Without any, an utterance ends with its stream. `decoder` is prepared for `model` and
  /// outlives this. `wordless_seconds`: of speech without a token, after which a stream starts
  /// over, at most kMostWordlessSeconds; 0: none does. Otherwise the host keeps the samples that
  /// are not decoded yet, and at most 61 s and two chunks of the others. Throws UserError for
  /// another number, and where the decoder takes no pieces.
  SpeechStreams(std::shared_ptr<const AcousticModel> model, Decoder& decoder,
                const StreamOptions& encoder, UtteranceEnds ends = {}, double wordless_seconds = 0);

  /// `prompt`: see EncoderStreams.
  int64_t open(std::optional<int64_t> prompt = std::nullopt);
  /// See Streams: of the utterance that an open stream is in.
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias);
  /// See EncoderStreams.
  void push(std::span<const NewSamples> all);
  void push(int64_t stream, std::span<const float> samples) {
    const NewSamples one{stream, samples};
    push(std::span(&one, 1));
  }
  void finish(int64_t stream);
  /// Whether step() has something to do for the stream.
  bool ready(int64_t stream) { return encoder_->waiting(find(stream).encoder); }
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
  /// Seconds that steps have taken so far: features and encoder until the device had computed them,
  /// and the search behind that.
  double encoder_seconds() const { return encoder_seconds_; }
  double search_seconds() const { return search_seconds_; }
  /// Seconds that the voice activity detector has taken in push().
  double detector_seconds() const { return detector_seconds_; }

 private:
  /// The audio that a stream starts over with. Frames and samples count from the stream's start.
  struct Heard {
    StreamAudio audio;
    std::vector<float> levels;  // of the frames from first_level on that are decoded
    int64_t first_level = 0;
    LevelHistogram all;
  };
  /// A part that is being decoded again, up to `end`, where the stream was.
  struct Again {
    int64_t begin = 0, end = 0;  // frames of the stream
    int decodes = 0;
    int64_t words = 0;  // of utterances that have ended since
  };
  struct Stream {
    int64_t encoder, search;        // numbers in encoder_ and search_
    std::optional<int64_t> prompt;  // that it was opened with
    int64_t first = 0, frames = 0;  // as in SpeechUpdate
    int64_t last_end = -1;          // frame behind the last token of the utterance; -1: no token
    std::shared_ptr<const CompiledBias> bias = nullptr;  // of the utterance

    int64_t origin = 0;       // frame of the stream that the encoder's frame 0 is
    int64_t skip = 0;         // next encoder frames that are context, and not searched
    Hypothesis before = {};   // of the utterance, what was found before it started over
    int64_t shift = 0;        // frame of the utterance that the search's frame 0 is
    int64_t looked_at = 0;    // frame before which nothing is decoded again any more
    bool has_tokens = false;  // in any utterance
    std::optional<Again> again = {};
    int64_t again_end = 0;  // of the last such part,
    int again_decodes = 0;  // and how often it was decoded again
    Heard heard = {};
    std::optional<VoiceActivity> voice = {};  // with a detector
  };

  /// Throws UserError where the stream is not open.
  Stream& find(int64_t stream);
  SpeechUpdate update(int64_t number, Stream& stream, bool last, bool partial);
  /// Searches the frames of all rows, projected [rows, T', X], part by part. A part ends where an
  /// utterance of its stream may end.
  void search_in_parts(const EncodedPieces& pieces, const at::Tensor& projected,
                       std::vector<SpeechUpdate>& updates);
  /// The number of frames until the utterance can end, at least 1.
  int64_t frames_to_end(const Stream& stream) const;
  /// The rule that ends the utterance at the frames that have been searched.
  EndRule end_rule(const Stream& stream, const Hypothesis& best) const;
  /// The first frame of the utterance, `frame` or behind it, at which `silence` has lasted long
  /// enough; nothing if somebody speaks again before.
  std::optional<int64_t> end_in_silence(const Stream& stream, const Silence& silence,
                                        int64_t frame) const;
  /// Takes the final result and goes on with the next utterance, unless the stream has ended.
  void end_utterance(Stream& stream, SpeechUpdate& update);
  /// Takes the frames out that are context of streams that have started over.
  void drop_contexts(EncodedPieces& pieces, at::Tensor& projected);

  /// `result` of the stream's search as one of its utterance.
  Hypothesis joined(const Stream& stream, Hypothesis result) const;
  PartialResult joined(const Stream& stream, PartialResult result) const;
  int64_t count_words(const Stream& stream, const Hypothesis& result, int64_t begin,
                      int64_t end) const;
  int64_t kept_frames() const;     // of a part without words
  int64_t context_frames() const;  // that may be needed before it
  void hear(Stream& stream);
  /// Whether the stream may be in a part without words, without asking for its result.
  bool may_be_wordless(const Stream& stream, bool last) const;
  /// The part without words that the stream is in, by its result so far.
  std::optional<BlockRange> wordless(const Stream& stream, bool last) const;
  /// Whether the stream has started over. Otherwise `update` gets what is to be told.
  bool start_over(int64_t number, Stream& stream, bool last, SpeechUpdate& update);
  /// `best`: the result of the utterance so far.
  void start_over_at(int64_t number, Stream& stream, const Hypothesis& best, int64_t begin,
                     int decodes);

  std::shared_ptr<const AcousticModel> model_;
  std::unique_ptr<EncoderStreams> encoder_;
  std::unique_ptr<Streams> search_;
  UtteranceEnds ends_;
  double wordless_seconds_;
  int64_t rows_;   // of a step, at the most
  int64_t block_;  // samples of an encoder frame
  int64_t chunk_;  // frames of a step
  std::unordered_map<int64_t, Stream> streams_;
  std::unordered_map<int64_t, int64_t> numbers_;  // of streams by those of encoder_
  double encoder_seconds_ = 0, search_seconds_ = 0, detector_seconds_ = 0;
};

}  // namespace rtfx
