// Aligns recordings with their texts: reading, batching, encoding, and the best path of each text
// (algorithms/shared/alignment). `rtfx align` prints the results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/tokenizers/spelling.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/recording.h"
#include "speech/transcriber.h"

namespace rtfx {

struct AlignerOptions {
  Head head = Head::none;  // ctc or transducer; none = ctc where the model has it
  int64_t batch_size = 0;  // recordings; 0 = one on a CPU, as many as fit on a GPU
  Cuts cuts = {};
  double band_seconds = 5;  // transducer: limit of a path's distance to its guide; 0 = none
  double pause = 1;         // seconds without a word that end a segment
};

class Aligner {
 public:
  /// The calling thread must be on the model's device. `encoder` is as for Transcriber. Throws
  /// UserError where the model lacks the head.
  Aligner(std::shared_ptr<const AcousticModel> model, const AlignerOptions& options,
          std::shared_ptr<RecordedEncoder> encoder = nullptr);
  ~Aligner();
  Aligner(const Aligner&) = delete;
  Aligner& operator=(const Aligner&) = delete;

  /// Aligns each recording with texts[i], whose words may have any white space between them.
  /// Results, notices and failures go to the observer in the order of the recordings, one at a
  /// time. The transcript of a result holds the text as the tokenizer spells it, and the confidence
  /// of alignment.h. Returns the seconds of audio that have a result.
  ///
  /// One recording may fail while the others go on. It fails where it has no text, where the
  /// tokenizer cannot spell the text, or where the text is too long for the audio. It also fails
  /// for the reasons of Transcriber::run().
  ///
  /// Recordings form batches in their order. A long recording is encoded chunk by chunk, and all
  /// its encoder frames are in memory (of the device). An hour of frames with 1,024 float32 numbers
  /// every 80 ms takes 0.2 GB. The emissions of its frames are computed block by block.
  ///
  /// A transducer's lattice is restricted to nodes within `band_seconds` of a guide
  /// (band_around()). The guide is the path of the CTC head. Without such a head, it is the greedy
  /// result, searched in rows of 30 s (guide_from()). A notice says where the path touches the edge
  /// of its band.
  double run(const std::vector<Recording>& recordings,
             const std::vector<std::optional<std::string>>& texts, TranscriptionObserver& observer);

 private:
  class Pass;
  struct Parts;

  std::shared_ptr<const AcousticModel> model_;
  AlignerOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// Returns the head of that name. "auto" gives Head::none. Throws UserError, with `where`, for a
/// name other than "auto", "ctc" and "transducer".
Head head_named(const std::string& name, const std::string& where);

/// Returns the head that `asked` stands for (AlignerOptions). Throws UserError, with `where`, where
/// the model lacks it.
Head alignment_head(const ModelConfig& model, Head asked, const std::string& where);

/// Returns the token ids of a text, whose words may have any white space between them. Throws
/// UserError, with `where`, for an empty text. Also throws for a text that the tokenizer cannot
/// spell, and names the word and the character.
std::vector<int32_t> spell_text(const Speller& speller, const std::string& text,
                                const std::string& where);

}  // namespace rtfx
