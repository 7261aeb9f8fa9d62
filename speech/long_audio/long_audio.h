// Audio of hours in bounded memory: cut into chunks, encoded with what is around them, many at a
// time, and searched in pieces (algorithms/streams.h) in their order.
//
// Chunks lie on the grid of the encoder's frames, and of each chunk's encoded frames exactly its
// own are kept: the rest is context. So every frame of the audio is searched once, and by
// construction no token is lost or doubled at a seam. The result differs from that of encoding the
// whole at once by what the encoder sees beyond the contexts. A chunk ends in a pause if there is
// one (best_cut()); behind a pause the search begins anew, as for an utterance of its own, and
// elsewhere it goes on.
//
// Where there are no tokens for long although somebody speaks, that part is decoded again, by the
// same encoder and search (decode_again.h). A chunk's levels and those of all chunks before it say
// what speech is.
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
  double chunk_seconds = 20;   // at most; at least half of it
  double context_seconds = 1;  // on either side
  int64_t batch = 8;           // chunks that are encoded together
  /// Speech without a token, in one chunk, that is decoded again; 0: none is. A part may lie on
  /// both sides of a cut, so this is half of what it is for a recording that is not cut.
  double wordless_seconds = 4;
  bool begin_anew = true;              // behind pauses
  std::optional<int64_t> prompt = {};  // of a model with prompts; unset: the standard one
};

/// A part that one search decoded without starting over. It ends where the next one begins.
struct LongSection {
  int64_t first = 0;              // frame
  std::vector<Hypothesis> nbest;  // best first, frames from the start of the audio
};

struct LongResult {
  Hypothesis hypothesis;   // frames from the start of the audio; its score is a sum over sections
  TokenEvidence evidence;  // of its tokens; without `confidence` empty
  /// In order, of a decoder with a list of hypotheses; without what was decoded again.
  std::vector<LongSection> sections;
  double confidence_seconds = 0;  // that it took
  int64_t samples = 0;
  /// Parts that were decoded again, in order; blocks are frames. Those where the search has found
  /// words in the end are left out.
  std::vector<WordlessPart> again;
};

class LongAudio {
 public:
  /// `decoder` is prepared for `model`; `confidence`, of both, may be null. `judge`: the confidence
  /// that decides whether what was decoded again counts; null: all of it does. Throws UserError if
  /// the decoder takes no pieces. All must outlive this.
  LongAudio(const LongAudioOptions& options, const AcousticModel& model, RecordedEncoder& encoder,
            Decoder& decoder, const Confidence* confidence = nullptr,
            const Confidence* judge = nullptr);

  /// `progress` hears of the seconds that are done. Host and device hold options().batch chunks at
  /// a time. On a GPU four times as many: some are read, some copied to the device and some
  /// encoded, by threads and on streams of their own, while some are searched. `read` is called by
  /// a thread at a time, a chunk's length ahead; `progress` by another. Waits for the device.
  LongResult transcribe(const ChunkSource& source,
                        const std::function<void(double)>& progress = {});

 private:
  struct Section;
  struct Batch;
  struct OwnFrames;
  /// Evidence of a section's tokens. Frames are kept while a token may still be found in them.
  struct StreamEvidence {
    int64_t first = 0;  // frame of the section that `frames` begin with
    at::Tensor frames;  // [T, D] of the encoder
    size_t done = 0;    // tokens that have evidence
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
  std::mutex encoding_;  // what a search is stuck at is encoded again by its thread
  const Confidence* confidence_;
  const Confidence* judge_;
  const PipelineStreams* pipeline_;  // null on the CPU
  std::unique_ptr<Streams> streams_;
  std::map<int64_t, StreamEvidence> evidence_of_streams_;  // of open streams
  size_t block_;                                           // samples of an encoder frame
  LevelHistogram heard_;                                   // of the chunks so far
  std::vector<AgainPart> decoded_again_;  // in order; frames and blocks from the audio's start
};

}  // namespace rtfx
