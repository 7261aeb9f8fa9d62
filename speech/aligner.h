// Forced alignment of recordings with their texts: reading, batching, encoding, and the best path
// of each text (algorithms/shared/alignment). `rtfx align` prints what this returns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/tokenizers/spelling.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/recording.h"
#include "speech/transcriber.h"

namespace rtfx {

struct AlignerOptions {
  Head head = Head::none;  // whose path: ctc or transducer; none: ctc where the model has it
  int64_t batch_size = 0;  // recordings; 0: one on a CPU, and on a GPU as many as fit in its memory
  double long_above = 600;                         // seconds; longer recordings are cut into chunks
  double chunk_seconds = 20, context_seconds = 1;  // of these chunks (long_audio.h)
  double band_seconds = 5;  // transducer: how far a path may be from its guide; 0: any distance
  double pause = 1;         // seconds without a word that end a segment
};

class Aligner {
 public:
  /// The calling thread is on the model's device. `encoder`: as Transcriber takes it. Throws
  /// UserError where the model lacks the head.
  Aligner(std::shared_ptr<const AcousticModel> model, const AlignerOptions& options,
          std::shared_ptr<RecordedEncoder> encoder = nullptr);
  ~Aligner();
  Aligner(const Aligner&) = delete;
  Aligner& operator=(const Aligner&) = delete;

  /// Aligns each recording with texts[i], any white space between words. Results, notices and
  /// failures go to the observer in the order of the recordings, one at a time. The transcript of a
  /// result holds the text as the tokenizer spells it, and the confidence of alignment.h. A
  /// recording fails by itself: without a text, with one that the tokenizer cannot spell or that is
  /// too long for the audio, and as in Transcriber::run(). Returns the seconds of audio that have a
  /// result.
  ///
  /// Recordings form batches in their order. Encoder frames of a long recording, which is encoded
  /// chunk by chunk, are all in memory (of the device). They take 0.2 GB for an hour of 1,024
  /// numbers each 80 ms in float32. The emissions of its frames are computed block by block.
  ///
  /// A transducer's lattice is restricted to nodes within `band_seconds` of a guide
  /// (band_around()). The guide is the path of the CTC head. Without such a head it is the greedy
  /// result, searched in rows of 30 s (guide_from()). A notice tells where the path touches the
  /// edge of its band.
  double run(const std::vector<Recording>& recordings,
             const std::vector<std::optional<std::string>>& texts, TranscriptionObserver& observer);

 private:
  class Pass;
  struct Parts;

  std::shared_ptr<const AcousticModel> model_;
  AlignerOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// "auto" is none. Throws UserError, with `where`, for another name than "ctc" and "transducer".
Head head_named(const std::string& name, const std::string& where);

/// The head that `asked` stands for (AlignerOptions). Throws UserError, with `where`, where the
/// model lacks it.
Head alignment_head(const ModelConfig& model, Head asked, const std::string& where);

/// Token ids of a text, whose words stand between any white space. Throws UserError, with `where`,
/// for an empty text, and for one that the tokenizer cannot spell, with the word and the character.
std::vector<int32_t> spell_text(const Speller& speller, const std::string& text,
                                const std::string& where);

}  // namespace rtfx
