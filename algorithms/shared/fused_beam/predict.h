// The elementwise parts of joint and prediction network: each block has a chunk of a row.
#pragma once

#include <cmath>

#include "algorithms/gpu/activation.h"
#include "algorithms/shared/fused_beam/arrays.h"
#include "base/gpu/rounding.h"

namespace rtfx::fused_beam {

/// Rows of `width` elements, cut into chunks of one element for each thread of a GPU's block. A
/// chunk takes as long as a wider one would, since the time goes into waiting for memory.
struct Chunks {
  static constexpr int32_t kThreads = 128;

  int32_t rows, width;

  RTFX_HOST_DEVICE int32_t of_row() const { return ceil_div(width, kThreads); }
  int32_t blocks() const { return rows * of_row(); }

  /// work(row, i) for each element of one chunk.
  template <class Block, class Work>
  RTFX_DEVICE void each(const Block& block, int32_t chunk, const Work& work) const {
    const int32_t row = chunk / of_row(), begin = chunk % of_row() * kThreads;
    const int32_t end = begin + kThreads < width ? begin + kThreads : width;
    for (int32_t i = begin + block.thread(); i < end; i += block.threads()) work(row, i);
  }
};

/// The joint's hidden units, act(e + g), at `frame` or at each hypothesis' own; frames are clamped
/// to the utterance.
struct Hidden {
  static constexpr int32_t kThreads = Chunks::kThreads;

  Beams beams;
  Elements encoded;      // [B, T', H]
  Elements prediction;   // [R, H]
  Elements hidden;       // [R, H]
  const int64_t* frame;  // [1], or null
  int64_t frames;        // T'
  Chunks chunks;         // R, H
  Activation activation;

  int32_t blocks() const { return chunks.blocks(); }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t chunk, void*) const {
    with_type(hidden.precision, [&](auto type) {
      using T = decltype(type);
      chunks.each(block, chunk, [&](int32_t row, int32_t i) {
        const int64_t place = int64_t{row} * chunks.width + i;
        const T g = load_constant(prediction.as<T>() + place);
        const T e = load_constant(encoded.as<T>() + frame_of(row) * chunks.width + i);
        const T sum = from_float<T>(to_float(e) + to_float(g));
        hidden.as<T>()[place] = from_float<T>(activate(activation, to_float(sum)));
      });
    });
  }

 private:
  /// Of all utterances' frames.
  RTFX_DEVICE int64_t frame_of(int32_t row) const {
    const int32_t b = row / beams.beam;
    const int64_t last = beams.frames[b] - 1, time = frame == nullptr ? beams.time[row] : *frame;
    const int64_t valid = time < last ? time : last;
    return b * frames + (valid > 0 ? valid : 0);
  }
};

/// One LSTM layer's units: rows with a token go on from their parent's state, the others take it as
/// it is. Gates in the order i, f, g, o.
///
/// States have two buffers: a row may read the state of any other, so new states go to the one that
/// no row reads in this step (Moves::state_buffer).
struct LstmCell {
  static constexpr int32_t kThreads = Chunks::kThreads;

  Moves moves;
  Elements input_gates;  // [V+1, 4P] by token, or [R, 4P] by row; without bias
  bool by_token;
  Elements recurrent_gates;             // [R, 4P] of the rows before the step; without bias
  Elements input_bias, recurrent_bias;  // [4P]
  Elements h, c;                        // [2, R, P] of this layer
  Elements output;                      // [R, P] h after the step, always here
  Chunks chunks;                        // R, P

  int32_t blocks() const { return chunks.blocks(); }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t chunk, void*) const {
    with_type(output.precision, [&](auto type) {
      using T = decltype(type);
      chunks.each(block, chunk, [&](int32_t row, int32_t i) { step<T>(row, i); });
    });
  }

 private:
  template <class T>
  RTFX_DEVICE void step(int32_t row, int32_t i) const {
    const int32_t token = moves.tokens[row], parent = moves.parents[row],
                  buffer = *moves.state_buffer;
    const int64_t width = chunks.width, place = row * width + i;
    const int64_t from = int64_t{1 - buffer} * chunks.rows * width + parent * width + i;
    const int64_t to = int64_t{buffer} * chunks.rows * width + place;
    T new_h = load_constant(h.as<T>() + from), new_c = load_constant(c.as<T>() + from);
    if (token >= 0) {
      const int64_t input = int64_t{by_token ? token : row} * 4 * width;
      T terms[4][4];
      for (int32_t gate = 0; gate < 4; ++gate) {
        const int64_t column = gate * width + i;
        terms[gate][0] = load_constant(input_gates.as<T>() + input + column);
        terms[gate][1] = load_constant(recurrent_gates.as<T>() + parent * 4 * width + column);
        terms[gate][2] = load_constant(input_bias.as<T>() + column);
        terms[gate][3] = load_constant(recurrent_bias.as<T>() + column);
      }
      const auto gate = [&terms](int32_t number) {
        const T* of = terms[number];
        return to_float(of[0]) + to_float(of[1]) + to_float(of[2]) + to_float(of[3]);
      };
      const float kept = sigmoid(gate(1)) * to_float(new_c);
      const float cell = kept + sigmoid(gate(0)) * tanhf(gate(2));
      new_c = from_float<T>(cell);
      new_h = from_float<T>(sigmoid(gate(3)) * tanhf(cell));
    }
    h.as<T>()[to] = new_h;
    c.as<T>()[to] = new_c;
    output.as<T>()[place] = new_h;
  }
};

}  // namespace rtfx::fused_beam
