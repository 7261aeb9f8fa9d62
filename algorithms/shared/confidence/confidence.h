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

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/transducer/transducer.h"
#include "base/options.h"
#include "models/acoustic_model.h"

namespace rtfx {

// One number says how sure a distribution over labels is. The formulas are those of Laptev,
// Ginsburg, "Fast Entropy-Based Methods of Word-Level Confidence Estimation for End-to-End
// Automatic Speech Recognition" (2023), section 2, as NeMo computes them. A uniform distribution
// has 0, a certain one 1.
//
// p over V labels, blank among them; 0 < a = alpha <= 1; Hmax is H of the uniform distribution.
//
//   max_prob       (max p^a V^a - 1) / (V^a - 1)
//   gibbs          H = -sum p^a ln p                    Hmax = V^(1-a) ln V
//   tsallis        H = (1 - sum p^a) / (a - 1)          Hmax = (V^(1-a) - 1) / (1 - a)
//     lin          1 - H / Hmax
//     exp          (e^-H - e^-Hmax) / (1 - e^-Hmax);  gibbs with a != 1: e^(-a H), e^(-a Hmax)
//
// With a = 1 both entropies are Shannon's. For a well below 1 / ln V, Gibbs' entropy of some
// distributions is above Hmax: these have 0. For a > 1 it would be so of nearly certain ones.

struct ConfidenceOptions {
  std::string method = "entropy";  // or "max_prob"
  std::string entropy = "gibbs";
  std::string norm = "exp";
  double alpha = 1;
  std::string aggregation = "mean";  // of tokens to words, of words to the utterance
  bool exclude_blank = true;
};

/// The defaults told right from wrong best on the stand-ins (reports/confidence). NeMo's: entropy,
/// tsallis, exp, 0.33, min.
const OptionTable<ConfidenceOptions>& confidence_options();

/// logprobs [..., V], float32, natural logarithms -> [...]. Does not synchronise.
at::Tensor confidence_of(const at::Tensor& logprobs, const ConfidenceOptions& options);

/// mean, min, max or prod of `values`; NaN where there are none.
double aggregate(std::span<const double> values, const std::string& aggregation);

struct TokenEvidence {
  /// CTC: frames from a token's own on of which it is the best label, at least its own; ends before
  /// the next token's. Empty for transducers.
  std::vector<int32_t> runs;
  std::vector<double> confidence;  // of each token; empty where none was asked for
};

class Confidence {
 public:
  /// `model`: with the decoder's blank penalty (blank_penalty.h). `head`: its ctc or transducer, as
  /// the model has. Without `options` there are only the runs, of which a transducer has none.
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
