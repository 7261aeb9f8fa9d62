// The texts of one utterance's beam search as a tree, each with the prediction network's output
// after it: equal texts are one node, and no text is put through the network twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

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

}  // namespace rtfx
