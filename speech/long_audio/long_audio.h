// Transcribes audio of hours in bounded memory. The audio is cut into chunks. Many chunks are
// encoded at a time, with the audio around them. Their frames are searched in pieces
// (algorithms/streams.h), in order.
//
// Chunks lie on the grid of the encoder's frames. Of the encoded frames of each chunk exactly its
// own are kept, and the rest is context. So every frame of the audio is searched once. A token may
// still be lost or doubled at a border, where the frames on either side come from other contexts.
// A chunk ends in a pause if there is one (best_cut()). After a pause the search starts over, as
// for an utterance of its own. Elsewhere it goes on.
//
// Where somebody speaks for long without a token, that part is decoded again by the same encoder
// and search (decode_again.h). The levels of a chunk and all chunks before it decide which sound
// counts as speech.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/confidence/confidence.h"
#include "models/acoustic_model.h"
#include "speech/long_audio/chunks.h"
#include "speech/long_audio/decode_again.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/recorded_encoder.h"

namespace rtfx {

struct PipelineStreams;  // speech/pipeline/overlapped_pipeline.h

struct LongAudioOptions {
  double chunk_seconds = Cuts().chunk_seconds;
  double context_seconds = Cuts().context_seconds;
  int64_t batch = 8;  // chunks that are encoded together
  /// A stretch of a chunk of this many seconds that has no token, but at least 1.5 s of speech, is
  /// decoded again. 0 means none. A stretch may lie on both sides of a cut. So this is half of the
  /// value for recordings that are not cut.
  double wordless_seconds = 4;
  bool begin_anew = true;              // starts the search over after pauses
  std::optional<int64_t> prompt = {};  // prompt of a model with prompts; unset = the standard one
};

/// A part that one search decoded without starting over. It ends where the next one begins.
struct LongSection {
  int64_t first = 0;              // frame
  std::vector<Hypothesis> nbest;  // best first; frames count from the start of the audio
};

struct LongResult {
  Hypothesis hypothesis;   // frames from the start of the audio; score summed over sections
  TokenEvidence evidence;  // evidence of its tokens; empty without `confidence`
  /// In order, for a decoder with n-best lists. They lack the parts that were decoded again.
  std::vector<LongSection> sections;
  double confidence_seconds = 0;  // seconds that the confidence took
  int64_t samples = 0;
  /// Parts that were decoded again, in order. Blocks are frames. Parts in which the search did find
  /// words in the end are left out.
  std::vector<WordlessPart> again;
};

class LongAudio {
 public:
  /// `decoder` is prepared for `model`. `confidence` belongs to both and may be null. `judge` is
  /// the confidence that decides whether the result of decoding again counts. With null, every such
  /// result counts. Throws UserError if the decoder takes no pieces. All arguments must outlive
  /// this.
  LongAudio(const LongAudioOptions& options, const AcousticModel& model, RecordedEncoder& encoder,
            Decoder& decoder, const Confidence* confidence = nullptr,
            const Confidence* judge = nullptr);

  /// Transcribes the audio. `progress` receives the seconds that are done. Host and device hold
  /// options().batch chunks at a time. On a GPU they hold four times as many. While some are
  /// searched, threads read some, copy some to the device and encode some, on streams of their own.
  /// `read` is called by one thread at a time, a chunk's length ahead, and `progress` by another
  /// thread. Waits for the device.
  LongResult transcribe(const ChunkSource& source,
                        const std::function<void(double)>& progress = {});

 private:
  struct Section;
  struct Batch;
  struct OwnFrames;
  /// The evidence of a section's tokens. Frames are kept as long as a token may still be found in
  /// them.
  struct StreamEvidence {
    int64_t first = 0;  // frame of the section that is the first one of `frames`
    at::Tensor frames;  // [T, D], encoder frames
    size_t done = 0;    // number of tokens that have evidence
    Confidence::Before before;
    TokenEvidence evidence;
  };

  void copy(Batch& batch) const;
  void encode(Batch& batch);
  OwnFrames own_frames(const Batch& batch, bool with_encoded) const;
  TokenEvidence evidence_of(const Confidence& confidence, const at::Tensor& frames,
                            const Hypothesis& piece, Confidence::Before& before,
                            LongResult& result) const;
  void add_evidence(StreamEvidence& gathered, const Hypothesis& h, size_t tokens,
                    LongResult& result) const;
  Hypothesis close(const Section& section, LongResult& result);
  void search(const Batch& batch, Section& section, LongResult& result);
  void decode_again(const AudioChunk& chunk, const Hypothesis& said, LongResult& result);
  void insert_decoded_again(LongResult& result) const;
  FoundTokens decode_alone(const AgainPiece& piece, LongResult& result);
  double seconds(int64_t frame) const;
  size_t blocks(double seconds) const;  // encoder frames

  LongAudioOptions options_;
  const AcousticModel& model_;
  RecordedEncoder& encoder_;
  RegionClock clock_;
  std::mutex encoding_;  // the thread of the search also encodes, to decode parts again
  const Confidence* confidence_;
  const Confidence* judge_;
  const PipelineStreams* pipeline_;  // null on the CPU
  std::unique_ptr<Streams> streams_;
  std::map<int64_t, StreamEvidence> evidence_of_streams_;  // one for each open stream
  size_t block_;                                           // samples of an encoder frame
  LevelHistogram heard_;                                   // levels of the chunks so far
  std::vector<AgainPart> decoded_again_;  // in order; frames and blocks from the audio's start
};

}  // namespace rtfx
