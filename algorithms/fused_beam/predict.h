// The elementwise parts of joint and prediction network: a block for each row.
#pragma once

#include <cmath>

#include "algorithms/fused_beam/arrays.h"

namespace rtfx::fused_beam {

enum class Activation : int32_t { relu, tanh, sigmoid };  // as Joint::Activation

RTFX_DEVICE inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/// The joint's hidden units, act(e + g), at `frame` or at each hypothesis' own; frames are clamped
/// to the utterance.
struct Hidden {
  Beams beams;
  Elements encoded;      // [B, T', H]
  Elements prediction;   // [R, H]
  Elements hidden;       // [R, H]
  const int64_t* frame;  // [1], or null
  int64_t frames;        // T'
  int32_t width;         // H
  Activation activation;

  int32_t blocks() const { return beams.rows(); }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void*) const {
    const int32_t b = row / beams.beam;
    const int64_t last = beams.frames[b] - 1, time = frame == nullptr ? beams.time[row] : *frame;
    const int64_t valid = time < last ? time : last;
    const int64_t from = (b * frames + (valid > 0 ? valid : 0)) * width;
    const int64_t place = int64_t{row} * width;
    for (int32_t i = block.thread(); i < width; i += block.threads()) {
      const float sum = hidden.rounded(encoded.get(from + i) + prediction.get(place + i));
      hidden.set(place + i, active(sum));
    }
  }

 private:
  RTFX_DEVICE float active(float x) const {
    switch (activation) {
      case Activation::relu:
        return x < 0 ? 0 : x;  // a NaN stays one
      case Activation::tanh:
        return tanhf(x);
      default:
        return sigmoid(x);
    }
  }
};

/// Each row's LSTM state out of its parent's.
struct Gather {
  Moves moves;
  Elements h, c;            // [L, R, P] after the step before
  Elements from_h, from_c;  // [L, R, P] where each row starts
  int32_t rows, layers, width;

  int32_t blocks() const { return rows; }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void*) const {
    for (int32_t layer = 0; layer < layers; ++layer) {
      const int64_t to = (int64_t{layer} * rows + row) * width;
      const int64_t from = (int64_t{layer} * rows + moves.parents[row]) * width;
      for (int32_t i = block.thread(); i < width; i += block.threads()) {
        from_h.set(to + i, h.get(from + i));
        from_c.set(to + i, c.get(from + i));
      }
    }
  }
};

/// One LSTM layer's units for rows with a token; the others keep their state. Gates in the order
/// i, f, g, o.
struct LstmCell {
  Moves moves;
  Elements input_gates;  // [V+1, 4P] by token, or [R, 4P] by row; without bias
  bool by_token;
  Elements recurrent_gates;             // [R, 4P]; without bias
  Elements input_bias, recurrent_bias;  // [4P]
  Elements from_h, from_c;              // [R, P] of this layer
  Elements h, c;                        // [R, P]
  int32_t rows, width;

  int32_t blocks() const { return rows; }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void*) const {
    const int64_t place = int64_t{row} * width;
    const int32_t token = moves.tokens[row];
    for (int32_t i = block.thread(); i < width; i += block.threads()) {
      if (token < 0) {
        h.set(place + i, from_h.get(place + i));
        c.set(place + i, from_c.get(place + i));
        continue;
      }
      const auto gate = [&](int32_t number) {
        const int64_t column = int64_t{number} * width + i;
        const float input = input_gates.get((by_token ? token : row) * int64_t{4} * width + column);
        return input + recurrent_gates.get(place * 4 + column) + input_bias.get(column) +
               recurrent_bias.get(column);
      };
      const float kept = sigmoid(gate(1)) * from_c.get(place + i);
      const float cell = kept + sigmoid(gate(0)) * tanhf(gate(2));
      c.set(place + i, cell);
      h.set(place + i, sigmoid(gate(3)) * tanhf(cell));
    }
  }
};

}  // namespace rtfx::fused_beam
