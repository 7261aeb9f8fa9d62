// Streams from samples to tokens: an encoder's steps (models/streaming) and a decoder's streams
// (algorithms/streams.h). Each stream here has one stream of the encoder and one of the decoder.
//
// A stream consists of utterances. Rules end an utterance before its stream ends
// (endpointing.h). All rules look at encoder frames in order, so that an utterance ends at the
// same frame however the samples are cut into pieces. Only the frames before the end are searched
// for an utterance. Frames after the end belong to the next utterance.
//
// A model may stay on blank although somebody speaks (speech/pipeline/wordless_speech.h). Then
// encoder and search of that stream start over before this part, with chunks at other positions.
// They process the audio since then again, which was kept. Tokens that were found before stay. This
// is tried at most twice for the same audio, with different chunks.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"
#include "models/streaming/stream_features.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/pipeline/wordless_speech.h"
#include "speech/streams/endpointing.h"

namespace rtfx {

/// The result of one step for one stream.
struct SpeechUpdate {
  int64_t stream = 0;
  EndpointRule rule =
      EndpointRule::none;           // the rule that ended the utterance; `result` is then final
  int32_t end_token = -1;           // the token of EndpointRule::token
  bool closed = false;              // the stream is closed: its last frames are in
  int64_t first = 0;                // frame of the stream that is frame 0 of `result`
  int64_t frames = 0;               // frames of the utterance so far
  PartialResult result;             // all of it is stable where it is final
  std::vector<WordlessPart> again;  // finished parts of the stream; blocks are frames

  bool ended() const { return rule != EndpointRule::none; }  // the utterance has ended
};

/// Returns the frame after the last token and its duration, which counts as at least one frame.
/// Returns -1 without tokens.
int64_t end_of(const Hypothesis& hypothesis);

/// The time of an utterance in seconds of its stream.
struct SpokenTime {
  double start = 0, end = 0;
};
/// Returns the begin of the first token and the end of the last one, as end_of() defines it. Both
/// are at most `heard`, the seconds of audio so far, since the last frames of a stream may be later
/// than its audio. Without tokens, both are those of the utterance's frame 0.
SpokenTime spoken_time(const SpeechUpdate& update, double frame_seconds, double heard);

/// Returns the piece of the end token that has ended the utterance, or the name of another rule.
/// The result is empty for an utterance that goes on.
std::string ended_by(const SpeechUpdate& update, const Tokenizer& tokenizer);

/// Returns Decoder::streams(). Throws UserError where there are none.
std::unique_ptr<Streams> open_search(Decoder& decoder, const StreamLimits& limits);

/// The longest part without words that can be decoded again.
inline constexpr double kMostWordlessSeconds = 20;

/// Encodes and searches streams on one thread. Errors are those of EncoderStreams and Streams.
class SpeechStreams {
 public:
  /// `rules` end utterances, at any place in a chunk. The stream then goes on with a new utterance.
  /// Without rules, an utterance ends with its stream. `decoder` is prepared for `model` and
  /// outlives this.
  ///
  /// A stream starts over after `wordless_seconds` (0 to kMostWordlessSeconds) without a token that
  /// contain 1.5 s of speech. With 0, no stream starts over. Otherwise the host keeps the samples
  /// that are not decoded yet, and at most 61 s and two chunks of the others. Throws UserError for
  /// a number outside of this range, and where the decoder takes no pieces.
  SpeechStreams(std::shared_ptr<const AcousticModel> model, Decoder& decoder,
                const StreamOptions& encoder, EndpointRules rules = {},
                double wordless_seconds = 0);

  /// `prompt` is that of EncoderStreams::open().
  int64_t open(std::optional<int64_t> prompt = std::nullopt);
  /// Sets the bias of a stream's search, as Streams::set_bias() does. It holds for the utterance
  /// that the open stream is in and for all that follow, until it is set anew.
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias);
  /// See EncoderStreams. If the voice activity detector fails for a stream, that stream has failed
  /// and can only be closed. The others have taken their samples when the first error is thrown.
  void push(std::span<const NewSamples> all);
  void push(int64_t stream, std::span<const float> samples) {
    const NewSamples one{stream, samples};
    push(std::span(&one, 1));
  }
  void finish(int64_t stream);
  /// Returns whether step() has something to do for the stream.
  bool ready(int64_t stream) { return encoder_->waiting(working(stream).encoder); }
  /// Forgets the stream, also one that has failed. This is not needed once an update has said that
  /// it is closed.
  void close(int64_t stream);

  /// Encodes and searches the next chunk of every stream that has one, up to the number of rows.
  /// Waits for the device. The result is empty where no stream has a chunk. Each stream has an
  /// update for each utterance that the chunk ends, and one for the utterance that goes on. With
  /// `partial`, the update of an utterance that goes on has its result so far.
  ///
  /// Throws what begins the next utterance of a stream throws, for example if memory is short. That
  /// stream has failed: it can only be closed. The others go on, and the next call returns their
  /// updates. If encoder or search throw, all streams that had a chunk can only be closed.
  std::vector<SpeechUpdate> step(bool partial = true);

  /// Returns the result of an open stream's utterance, as far as it has been decoded.
  PartialResult partial(int64_t stream);
  /// Returns the frame of an open stream that is frame 0 of its utterance.
  int64_t first(int64_t stream) { return working(stream).first; }

  const EncoderStreams& encoder() const { return *encoder_; }
  /// Returns the seconds that the steps have taken so far. encoder_seconds() counts features and
  /// encoder, until the device had computed them. search_seconds() counts the search after that.
  double encoder_seconds() const { return encoder_seconds_; }
  double search_seconds() const { return search_seconds_; }
  /// Returns the seconds that the voice activity detector has taken in push().
  double detector_seconds() const { return detector_seconds_; }

 private:
  /// The audio from which a stream starts over. Frames and samples count from the stream's start.
  struct KeptAudio {
    StreamAudio audio;
    std::vector<float> levels;  // levels of the decoded frames from first_level on
    int64_t first_level = 0;
    LevelHistogram all;
  };
  /// A part that is being decoded again, up to `end`, which the stream had reached before.
  struct Again {
    int64_t begin = 0, end = 0;  // frames of the stream
    int decodes = 0;
    int64_t words = 0;  // words of utterances that have ended since
  };
  static constexpr int64_t kNone = -1;
  struct Stream {
    int64_t encoder, search;        // numbers in encoder_ and search_; kNone where it has failed
    std::optional<int64_t> prompt;  // prompt with which it was opened
    int64_t first = 0, frames = 0;  // the members of SpeechUpdate
    int64_t last_end = -1;          // frame after the last token of the utterance; -1 = no token
    std::shared_ptr<const CompiledBias> bias = nullptr;  // bias of all its utterances

    int64_t origin = 0;       // frame of the stream that is the encoder's frame 0
    int64_t skip = 0;         // number of next encoder frames that are context, and not searched
    Hypothesis before = {};   // tokens of the utterance from before it started over
    int64_t shift = 0;        // frame of the utterance that is the search's frame 0
    int64_t looked_at = 0;    // nothing before this frame is decoded again any more
    bool has_tokens = false;  // some utterance had a token
    std::optional<Again> again = {};
    int64_t again_end = 0;  // end of the last part that was decoded again
    int again_decodes = 0;  // how often that part was decoded again
    KeptAudio kept_audio = {};
    std::optional<VoiceActivity> voice = {};  // set where there is a detector
  };

  /// Throws UserError where the stream is not open.
  Stream& find(int64_t stream);
  /// Throws UserError also for a stream that has failed.
  Stream& working(int64_t stream);
  /// Closes the stream's encoder and search, as far as it has them.
  void release(Stream& stream);
  /// Runs `work`, which is about one stream. If it throws, the stream has failed, and `failure`
  /// holds the first exception.
  template <class Work>
  void attempt(int64_t number, std::exception_ptr& failure, const Work& work);
  SpeechUpdate update(int64_t number, Stream& stream, bool last, bool partial);
  /// Searches the frames of all rows, projected [rows, T', X], part by part. A part ends where an
  /// utterance of its stream may end.
  void search_in_parts(const EncodedPieces& pieces, const at::Tensor& projected,
                       std::vector<SpeechUpdate>& updates, std::exception_ptr& failure);
  /// Returns the number of frames until the utterance can end, at least 1.
  int64_t frames_to_end(const Stream& stream) const;
  /// Returns the rule that ends the utterance at the frames that have been searched.
  EndpointRule endpoint_rule(const Stream& stream, const Hypothesis& best) const;
  /// Returns the first frame of the utterance, from `frame` on, at which `silence` has lasted long
  /// enough. Returns nothing if somebody speaks again before that.
  std::optional<int64_t> end_in_silence(const Stream& stream, const Silence& silence,
                                        int64_t frame) const;
  /// Takes the final result and begins the next utterance, unless the stream has ended.
  void end_utterance(Stream& stream, SpeechUpdate& update);
  /// Removes the frames that are context of streams that have started over.
  void drop_contexts(EncodedPieces& pieces, at::Tensor& projected);

  /// Returns `result` of the stream's search as the result of its utterance.
  Hypothesis joined(const Stream& stream, Hypothesis result) const;
  PartialResult joined(const Stream& stream, PartialResult result) const;
  int64_t count_words(const Stream& stream, const Hypothesis& result, int64_t begin,
                      int64_t end) const;
  int64_t kept_frames() const;     // frames to keep of a part without words
  int64_t context_frames() const;  // frames of context that may be needed before it
  void hear(Stream& stream);
  /// Returns whether the stream may be in a part without words, without requesting its result.
  bool may_be_wordless(const Stream& stream, bool last) const;
  /// Returns the part without words that the stream is in, by its result so far.
  std::optional<BlockRange> wordless(const Stream& stream, bool last) const;
  /// Returns whether the stream has started over. Otherwise `update` receives the finished parts.
  bool start_over(int64_t number, Stream& stream, bool last, SpeechUpdate& update);
  /// `best` is the result of the utterance so far.
  void start_over_at(int64_t number, Stream& stream, const Hypothesis& best, int64_t begin,
                     int decodes);

  std::shared_ptr<const AcousticModel> model_;
  std::unique_ptr<EncoderStreams> encoder_;
  std::unique_ptr<Streams> search_;
  EndpointRules rules_;
  double wordless_seconds_;
  int64_t rows_;   // the most rows of a step
  int64_t block_;  // samples of an encoder frame
  int64_t chunk_;  // frames of a step
  std::unordered_map<int64_t, Stream> streams_;
  std::unordered_map<int64_t, int64_t> numbers_;  // stream numbers by those of encoder_
  std::vector<SpeechUpdate> kept_;                // updates of a step that has thrown
  double encoder_seconds_ = 0, search_seconds_ = 0, detector_seconds_ = 0;
};

}  // namespace rtfx
