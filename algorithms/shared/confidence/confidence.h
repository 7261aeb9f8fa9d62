// The model's confidence in each token of a result, whichever decoder found it. A pass after the
// search evaluates prediction network and joint network along the result's own path, or reads the
// emissions of the CTC head.
//
// The distribution of a token is over all labels with blank, given the tokens before it, at its
// frame; for CTC, at all frames of its run. With `exclude_blank` off, the blanks behind a token
// count for it too, up to the next token. These are, for RNN-T, the frames between the two tokens;
// for TDT, the chain of blanks by their best durations from the token's end on; for CTC, all frames
// between.
//
// Greedy results have the numbers that NeMo computes. For a result that a beam or a language model
// chose, they say how sure the model was at that place, not how sure it was of that token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/confidence/measure.h"
#include "algorithms/shared/transducer/transducer.h"
#include "models/acoustic_model.h"

namespace rtfx {

struct TokenEvidence {
  /// CTC: frames from a token's own on of which it is the best label, at least its own; ends before
  /// the next token's. Empty for transducers.
  std::vector<int32_t> runs;
  std::vector<double> confidence;  // of each token; empty where none was asked for
};

class Confidence {
 public:
  /// `head`: of the decoder, ctc or transducer; the model must have it. Without `options` there are
  /// only the runs, which need the emissions of a CTC head and nothing of a transducer.
  Confidence(std::shared_ptr<const AcousticModel> model, Head head,
             std::optional<ConfidenceOptions> options);

  /// hypotheses[i], as result_check.h wants it, is of row rows[i] of `batch`, the decoder's input.
  /// Waits for the device. Works in the model's dtype, distributions in float32; takes kChunkBytes
  /// and what the predictions of all prefixes take.
  std::vector<TokenEvidence> operator()(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                                        const std::vector<const Hypothesis*>& hypotheses) const;

  /// The prediction after the tokens before a piece; empty at the utterance's start.
  using Before = std::optional<Transducer::Prediction>;

  /// The evidence of one piece of an utterance: its encoder frames [T, D], and the tokens whose
  /// frames lie in it, counted from the piece's first. Moves `before` behind these tokens. A run,
  /// and the blanks that count for a token, end with the piece.
  TokenEvidence piece_evidence(const at::Tensor& frames, const Hypothesis& piece,
                               Before& before) const;

  static constexpr int64_t kChunkBytes = int64_t{128} << 20;

 private:
  /// A distribution that is asked for: of `row` of the hypotheses, behind `prefix` tokens, at
  /// `frame`; and what is known of it.
  struct Asked {
    int64_t row = 0, prefix = 0, frame = 0;
  };
  struct Answer {
    double confidence = 0;
    int64_t skip = 1;  // TDT: frames that a blank passes there
  };

  TokenEvidence emission_evidence(const at::Tensor& frames, const Hypothesis& hypothesis) const;
  std::vector<TokenEvidence> joint_evidence(const EncodedBatch& batch,
                                            const std::vector<int64_t>& rows,
                                            const std::vector<const Hypothesis*>& hypotheses,
                                            const at::Tensor& predicted) const;

  std::vector<Answer> answers(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                              const at::Tensor& predicted, const std::vector<Asked>& asked) const;

  std::shared_ptr<const AcousticModel> model_;
  Head head_;
  std::optional<ConfidenceOptions> options_;
};

}  // namespace rtfx
