// The beam of one utterance on the host, which alsd and aes share: the beam is a list, and its
// texts are nodes of a tree. All orders are stable: among hypotheses of equal score, the one that
// stands earlier comes first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <variant>
#include <vector>

#include "algorithms/gpu/host_read.h"
#include "algorithms/hypotheses.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// The texts of one utterance's search as a tree. Each node holds the output of the prediction
/// network after its text. Equal texts are one node, so that no text goes through the network
/// twice.
class PredictionTree {
 public:
  using Text = size_t;  // index of a node; equal texts have equal indices
  static constexpr Text kEmpty = 0;

  /// `transducer` must project predictions once, and outlive this.
  explicit PredictionTree(const Transducer& transducer);

  /// Returns `text` followed by `token`.
  Text extended(Text text, int32_t token);
  /// Returns `text` without its last token; it must have one.
  Text parent(Text text) const { return nodes_[text].parent; }
  int32_t last_token(Text text) const { return nodes_[text].token; }
  int64_t length(Text text) const { return nodes_[text].length; }
  std::vector<int32_t> tokens(Text text) const;

  /// Returns the projected outputs of the prediction network, [n, H]. One prediction call computes
  /// those that are missing; the outputs of their parents must be there. Does not wait for the
  /// device.
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
  at::Tensor labels_;  // [V+1] int64, 0 .. V on the device: a label is a view of it, not a copy
  std::vector<Node> nodes_;
  int64_t predictor_calls_ = 0;
};

struct HostHypothesis {
  PredictionTree::Text text = PredictionTree::kEmpty;
  double score = 0;                                  // natural logarithm
  int64_t time = 0;                                  // next frame
  std::vector<int32_t> frames = {}, durations = {};  // one for each token

  /// Returns the hypothesis after a label that moves `duration` frames. If `next` is another text,
  /// the label is a token, emitted at `time`; otherwise it is blank.
  HostHypothesis after(PredictionTree::Text next, double log_prob, int64_t duration) const;
};
using HostBeam = std::vector<HostHypothesis>;

/// Returns ln(e^a + e^b), -inf if both are.
double log_add(double a, double b);

/// Sorts the beam, best first, and keeps at most `count` hypotheses.
void keep_best(HostBeam& beam, size_t count);

/// Merges hypotheses of equal text (and equal next frame, if `same_time`). The likeliest of them
/// stays at the place of the first one, and gets the sum of their probabilities.
void merge_equal(HostBeam& beam, bool same_time);

/// Log-probabilities on the host. Row i belongs to the i-th node that was asked for.
class HostLogProbs {
 public:
  HostLogProbs(at::Tensor values, int64_t labels);

  double label(size_t i, int64_t label) const {
    const int64_t place = static_cast<int64_t>(i) * values_.size(1) + label;
    return std::visit([&](const auto* all) -> double { return all[place]; }, numbers_);
  }
  double duration(size_t i, int64_t index) const { return label(i, labels_ + index); }
  /// Returns the `count` of the labels 0 .. labels - 1 with the largest values in row i, best
  /// first. Among equal values the lower label comes first.
  std::vector<int32_t> best_labels(size_t i, int64_t labels, int64_t count) const;
  int64_t labels() const { return labels_; }                       // V+1
  int64_t durations() const { return values_.size(1) - labels_; }  // D, 0 for RNN-T
  bool nan() const;

 private:
  using Numbers = std::variant<const float*, const double*>;

  at::Tensor values_;  // [n, V+1+D] of score_dtype()
  int64_t labels_;
  Numbers numbers_;  // the elements of values_
};

/// How far a label moves in time. RNN-T has one possibility: blank moves one frame, a token none.
/// TDT has one for each duration; a blank of duration 0 moves one frame.
struct Move {
  int64_t blank_frames = 1, token_frames = 0;
  double log_prob = 0;  // ln p of the duration
};

/// The lattice of one utterance: its nodes are pairs of text and frame.
class HostLattice {
 public:
  /// encoded [T, H], projected. The references must outlive this object.
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

  struct Node {
    PredictionTree::Text text;
    int64_t time;
  };
  /// Returns the probabilities of what may follow each node, by one joint call and one host read.
  HostLogProbs log_probs(const std::vector<Node>& nodes);
  HostLogProbs log_probs(const HostBeam& beam);

  /// Returns the moves that row `i` of `next` allows, by the index of their duration.
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

/// Returns at most `nbest` hypotheses, best first, ranked by score / (tokens + 1) if `score_norm`,
/// else by score.
std::vector<Hypothesis> rank(HostBeam beam, const PredictionTree& tree, bool score_norm,
                             int64_t nbest);

/// Implements Decoder::decode() of such a search. It projects the frames of the whole batch (range
/// "decode.project" of a profile), then calls `search` for one utterance after the other
/// ("decode.loop").
///
/// `search` gets the utterance's own projected frames [T, H] and returns ranked hypotheses, none if
/// a score is NaN. The results are on the host, with an n-best list if `nbest` is more than 1. The
/// function waits for the device once at the end, besides the waits of `search`.
Hypotheses search_one_by_one(
    const Transducer& transducer, const EncodedBatch& batch, int64_t nbest, HostReads& host,
    const std::function<std::vector<Hypothesis>(const at::Tensor& encoded)>& search);

}  // namespace rtfx
