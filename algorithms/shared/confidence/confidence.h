// The model's confidence in each token of a result, whichever decoder found it. A pass after the
// search evaluates prediction network and joint network along the result's own path, or reads the
// emissions of the CTC head.
//
// The confidence of a token comes from the distribution over all labels, blank included, given the
// tokens before it. The distribution is taken at the token's frame, or for CTC at all frames of its
// run. With `exclude_blank` off, the blanks between a token and the next one count for the token,
// too. For RNN-T, these are the frames between the two tokens. For TDT, they are the chain of
// blanks with their best durations, from the token's end on. For CTC, they are all frames between
// the run and the next token.
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
// has confidence 0, and a certain one has 1.
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
// distributions is above Hmax: these get confidence 0. For a > 1 this would happen to nearly
// certain distributions, so a > 1 is not allowed.

struct ConfidenceOptions {
  std::string method = "entropy";  // or "max_prob"
  std::string entropy = "gibbs";
  std::string norm = "exp";
  double alpha = 1;
  std::string aggregation = "mean";  // from tokens to words, and from words to the utterance
  bool exclude_blank = true;
};

/// Returns the table of options. The defaults separated right from wrong tokens best on the
/// stand-ins (reports/confidence). NeMo's defaults are entropy, tsallis, exp, 0.33, min.
const OptionTable<ConfidenceOptions>& confidence_options();

/// Computes the confidence of distributions: logprobs [..., V], float32, natural logarithms ->
/// [...]. Does not synchronise.
at::Tensor confidence_of(const at::Tensor& logprobs, const ConfidenceOptions& options);

/// Returns the mean, min, max or prod of `values`; NaN where there are none.
double aggregate(std::span<const double> values, const std::string& aggregation);

struct TokenEvidence {
  /// The number of frames from each token's own frame on at which the token is CTC's best label, at
  /// least 1. A run ends before the next token's frame. Empty for transducers.
  std::vector<int32_t> runs;
  std::vector<double> confidence;  // of each token; empty unless it was asked for
};

class Confidence {
 public:
  /// `model` has the decoder's blank penalty (blank_penalty.h). `head` is the decoder's head, ctc
  /// or transducer, which the model must have. Without `options` only the runs are computed, and a
  /// transducer has no runs.
  Confidence(std::shared_ptr<const AcousticModel> model, Head head,
             std::optional<ConfidenceOptions> options);

  /// Returns the evidence of each hypothesis. hypotheses[i] belongs to row rows[i] of `batch`, the
  /// decoder's input, and must keep the rules of result_check.h. Waits for the device. Computes in
  /// the model's dtype, with distributions in float32. Takes kChunkBytes of memory, plus the
  /// predictions of all prefixes.
  std::vector<TokenEvidence> operator()(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                                        const std::vector<const Hypothesis*>& hypotheses) const;

  /// The prediction after the tokens before a piece; empty at the utterance's start.
  using Before = std::optional<Transducer::Prediction>;

  /// Returns the evidence of one piece of an utterance: its encoder frames [T, D], and the tokens
  /// whose frames lie in it. Token frames count from the first frame of the piece. Moves `before`
  /// behind these tokens. Runs, and the blanks that count for a token, end with the piece.
  TokenEvidence piece_evidence(const at::Tensor& frames, const Hypothesis& piece,
                               Before& before) const;

  static constexpr int64_t kChunkBytes = int64_t{128} << 20;

 private:
  /// A distribution to compute: that of hypothesis `row` behind `prefix` tokens, at `frame`.
  struct Asked {
    int64_t row = 0, prefix = 0, frame = 0;
  };
  /// The numbers that are computed from a distribution.
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
