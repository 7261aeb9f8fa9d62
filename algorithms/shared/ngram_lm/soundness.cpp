#include "algorithms/shared/ngram_lm/soundness.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "algorithms/shared/ngram_lm/arpa.h"

namespace rtfx {
namespace {

/// Kept by all that an ARPA file may say, in natural logarithms and with rounding.
constexpr float kMostBackoff = 3 * ArpaReader::kMostBackoff;

class Check {
 public:
  Check(const NgramArrays& arrays, int64_t vocabulary, int64_t order)
      : arcs_(arrays.arc_to.size(0)),
        states_(arrays.backoff_to.size(0)),
        vocabulary_(vocabulary),
        order_(order),
        arc_to_(arrays.arc_to.const_data_ptr<int32_t>()),
        arc_label_(arrays.arc_label.const_data_ptr<int32_t>()),
        arc_weight_(arrays.arc_weight.const_data_ptr<float>()),
        state_arcs_(arrays.state_arcs.const_data_ptr<int32_t>()),
        backoff_to_(arrays.backoff_to.const_data_ptr<int32_t>()),
        backoff_weight_(arrays.backoff_weight.const_data_ptr<float>()),
        final_weight_(arrays.final_weight.const_data_ptr<float>()),
        context_(arrays.context.const_data_ptr<int32_t>()) {}

  std::string problem() const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (order_ < 2 || order_ > NgramLm::kMaxOrder)
      return fmt::format("is of order {}; 2 to {} are supported", order_, NgramLm::kMaxOrder);
    if (states_ < 2 || arcs_ < vocabulary_ || states_ > kMost || arcs_ > kMost)
      return fmt::format("has {} states and {} arcs for {} tokens", states_, arcs_, vocabulary_);
    int64_t arc = 0;  // the first that no state has had yet
    for (int64_t state = 0; state < states_; ++state) {
      const char* const problem = problem_of(state, arc);
      if (problem != nullptr) return fmt::format("state {} {}", state, problem);
    }
    return arc == arcs_ ? "" : fmt::format("arc {} belongs to no state", arc);
  }

 private:
  const char* problem_of(int64_t state, int64_t& arc) const {
    const int32_t context = context_[state], shorter = backoff_to_[state];
    if (state < 2 ? context != state : context < 1 || context >= order_)
      return "has a context of an impossible length";
    // Each back-off shortens the context, so that a search comes to state 0 in `order` of them.
    if (shorter < 0 || shorter >= states_ ||
        (state == 0 ? shorter != 0 : context_[shorter] != context - 1))
      return "backs off to a context that is not one token shorter";
    if (!(std::abs(backoff_weight_[state]) <= kMostBackoff) ||
        (state == 0 && backoff_weight_[0] != 0))
      return "has a back-off weight that is none";
    if (!is_logarithm(final_weight_[state])) return "has a weight for its end that is none";

    const int64_t begin = state_arcs_[2 * state], end = state_arcs_[2 * state + 1];
    const int64_t count = end - begin;
    if (state == 0 && count != vocabulary_) return "has not one arc for each token";
    if (begin < 0 || count < 0 || end > arcs_ || (count > 0 && begin != arc))
      return "has arcs out of bounds or of another state";
    for (int64_t i = begin; i < end; ++i) {
      const int32_t before = i == begin ? -1 : arc_label_[i - 1];
      if (arc_label_[i] <= before || arc_label_[i] >= vocabulary_)
        return "has arcs whose tokens are not in order";
      if (arc_to_[i] < 0 || arc_to_[i] >= states_) return "has an arc to a state that is not there";
      if (!is_logarithm(arc_weight_[i])) return "has an arc whose weight is none";
    }
    arc += count;
    return nullptr;
  }

  /// Of a probability, which may be 0; rounding may lift a sum with back-off above 1.
  static bool is_logarithm(float weight) {
    return weight < std::numeric_limits<float>::infinity();  // neither is NaN
  }

  int64_t arcs_, states_, vocabulary_, order_;
  const int32_t *arc_to_, *arc_label_;
  const float* arc_weight_;
  const int32_t *state_arcs_, *backoff_to_;
  const float *backoff_weight_, *final_weight_;
  const int32_t* context_;
};

}  // namespace

std::string unsoundness(const NgramArrays& arrays, int64_t vocabulary, int64_t order) {
  return Check(arrays, vocabulary, order).problem();
}

}  // namespace rtfx
