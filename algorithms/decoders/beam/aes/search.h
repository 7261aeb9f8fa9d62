// The search of aes.h over one utterance.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "algorithms/decoders/beam/aes/aes.h"

namespace rtfx {

class Aes::Search {
 public:
  /// encoded [T, H], projected. lm: on the CPU, or null. All must outlive this.
  Search(const Options& options, const Transducer& transducer, const NgramLm* lm,
         const at::Tensor& encoded, HostReads& host);

  /// Returns ranked hypotheses, none if a score is NaN.
  std::vector<Hypothesis> run();

  int64_t joint_calls() const { return lattice_.joint_calls(); }
  int64_t predictor_calls() const { return lattice_.tree().predictor_calls(); }

 private:
  using Text = PredictionTree::Text;

  void prefix_search(HostBeam& here, int64_t time);
  HostBeam expand(const HostBeam& here);
  HostBeam candidates(const HostHypothesis& h, const HostLogProbs& next, size_t row);
  HostHypothesis with_blank(const HostHypothesis& h, const HostLogProbs& next, size_t row) const;
  double lm_score(Text text);

  const Options& options_;
  const NgramLm* lm_;
  const int32_t blank_;
  const int64_t zero_duration_;  // TDT: index of the duration 0; -1 if there is none
  const bool tdt_;
  HostLattice lattice_;
  bool nan_ = false;

  struct LmStep {
    double score;  // alpha * ln p(last token | text before it)
    int32_t state;
  };
  std::map<Text, LmStep> lm_steps_;  // cache of lm_score()
};

}  // namespace rtfx
