// The texts of one utterance's beam search as a tree, each with the prediction network's output
// after it: equal texts are one node, and no text is put through the network twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "algorithms/gpu/host_read.h"
#include "algorithms/hypotheses.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

class PredictionTree {
 public:
  using Text = size_t;  // index of a text: two texts are equal if their indices are
  static constexpr Text kEmpty = 0;

  /// `transducer` must project predictions once, and outlive this.
  explicit PredictionTree(const Transducer& transducer);

  /// `text` and one token more.
  Text extended(Text text, int32_t token);
  /// `text` without its last token; it must have one.
  Text parent(Text text) const { return nodes_[text].parent; }
  int32_t last_token(Text text) const { return nodes_[text].token; }
  int64_t length(Text text) const { return nodes_[text].length; }
  std::vector<int32_t> tokens(Text text) const;

  /// Projected prediction network outputs [n, H]. Those that were not asked for before are computed
  /// together; their parents must have been. Does not wait for the device.
  at::Tensor outputs(const std::vector<Text>& texts);

  int64_t predictor_calls() const { return predictor_calls_; }

 private:
  struct Node {
    Text parent = kEmpty;
    int32_t token = -1;
    int64_t length = 0;
    std::map<int32_t, Text> children = {};
    at::Tensor output = {};  // [H]
    PredictionState state = {};
  };
  void compute(const std::vector<Text>& texts);

  const Transducer& transducer_;
  at::Tensor labels_;  // [V+1] int64, 0 .. V on the device: a label is a view, not a copy from here
  std::vector<Node> nodes_;
  int64_t predictor_calls_ = 0;
};

// What the searches over one utterance on the host (alsd, aes) share: a beam as a list.
//
// All orders are stable: of equal scores the hypothesis that stands earlier comes first.

struct HostHypothesis {
  PredictionTree::Text text = PredictionTree::kEmpty;
  double score = 0;                                  // natural logarithm
  int64_t time = 0;                                  // next frame
  std::vector<int32_t> frames = {}, durations = {};  // of each token

  /// After a symbol that moves `duration` frames: a blank, or with another `text` a token, which is
  /// emitted at `time`.
  HostHypothesis after(PredictionTree::Text next, double log_prob, int64_t duration) const;
};
using HostBeam = std::vector<HostHypothesis>;

/// ln(e^a + e^b); -inf if both are.
double log_add(double a, double b);

/// Best first, no more than `count`.
void keep_best(HostBeam& beam, size_t count);

/// Hypotheses of the same text (and next frame, if `same_time`) become one, with the sum of their
/// probabilities, in the place of the first of them.
void merge_equal(HostBeam& beam, bool same_time);

/// Labels [0, count) of `row` with the largest values, best first, the lowest of equals.
std::vector<int32_t> best_labels(const float* row, int64_t labels, int64_t count);

/// Log-probabilities on the host: row i is of the i-th place in the lattice that was asked for.
class HostLogProbs {
 public:
  HostLogProbs(at::Tensor values, int64_t labels) : values_(std::move(values)), labels_(labels) {}

  const float* row(size_t i) const {
    return values_.const_data_ptr<float>() + static_cast<int64_t>(i) * values_.size(1);
  }
  double label(size_t i, int64_t label) const { return row(i)[label]; }
  double duration(size_t i, int64_t index) const { return row(i)[labels_ + index]; }
  int64_t labels() const { return labels_; }                       // V+1
  int64_t durations() const { return values_.size(1) - labels_; }  // D, 0 for RNN-T
  bool nan() const;

 private:
  at::Tensor values_;  // [n, V+1+D] float32
  int64_t labels_;
};

/// A way for a symbol to move in time. RNN-T has one: blank moves a frame, a token none.
struct Move {
  int64_t of_blank = 1, of_token = 0;  // frames; TDT: the duration, but 1 for blank where that is 0
  double log_prob = 0;                 // of the duration
};

/// The lattice of one utterance.
class HostLattice {
 public:
  /// encoded [T, H], projected. All must outlive this.
  HostLattice(const Transducer& transducer, const at::Tensor& encoded, double temperature,
              HostReads& host)
      : transducer_(transducer),
        encoded_(encoded),
        temperature_(temperature),
        host_(host),
        tree_(transducer),
        durations_(transducer.duration_list()) {}

  int64_t frames() const { return encoded_.size(0); }
  PredictionTree& tree() { return tree_; }
  const PredictionTree& tree() const { return tree_; }

  /// What may come after each text at its frame. One joint call, one host read.
  struct Place {
    PredictionTree::Text text;
    int64_t time;
  };
  HostLogProbs log_probs(const std::vector<Place>& places);
  HostLogProbs log_probs(const HostBeam& beam);

  /// By duration index; `i`: row of `next`.
  std::vector<Move> moves(const HostLogProbs& next, size_t i) const;

  int64_t joint_calls() const { return joint_calls_; }

 private:
  const Transducer& transducer_;
  const at::Tensor& encoded_;
  double temperature_;
  HostReads& host_;
  PredictionTree tree_;
  std::vector<int64_t> durations_;
  int64_t joint_calls_ = 0;
};

/// Hypotheses by score / (tokens + 1) if `score_norm`, else by score, best first, `nbest` at most.
std::vector<Hypothesis> rank(HostBeam beam, const PredictionTree& tree, bool score_norm,
                             int64_t nbest);

/// Decoder::decode() of such a search: projects the frames of the batch at once (range
/// "decode.project" of a profile), then calls `search` for one utterance after the other
/// ("decode.loop").
///
/// `search`: encoded [T, H], projected, the utterance's own frames -> ranked hypotheses; none if
/// the emissions hold a NaN. The results are on the host, with a list if `nbest` is more than one.
/// Waits for the device once at the end, besides what `search` waits.
Hypotheses search_one_by_one(
    const Transducer& transducer, const EncodedBatch& batch, int64_t nbest, HostReads& host,
    const std::function<std::vector<Hypothesis>(const at::Tensor& encoded)>& search);

}  // namespace rtfx
