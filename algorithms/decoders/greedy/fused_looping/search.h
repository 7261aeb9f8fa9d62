// The arguments of the kernels of fused_looping: plain structs of sizes and device pointers. The
// transducer is
//   logits = W_o act(E[b, t] + g_b) + b_o,   E[b, t] = W_e frame[b, t] + b_e,
//   g_b = W_p h_top + b_p,   (h, c) = LSTM(label, h, c).
//
// Weights are packed for the tensor cores. A tile is 16 outputs x all inputs. A chunk of a tile is
// 64 bytes of each of its 16 rows. Its bytes are in the order in which the 32 lanes of a warp read
// them. Lane 4 r + q needs bytes [16 q, 16 q + 16) of rows r and r + 8. It reads the first 8 bytes
// of both, then the last 8. Each time it reads 4 bytes of row r, 4 of row r + 8, and so on, which
// are an operand of the tensor cores. Inputs are padded with zeros to whole chunks, outputs to
// whole tiles, and those of the joint network to whole groups of tiles.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "algorithms/decoders/greedy/fused_looping/row_bias_view.h"
#include "algorithms/decoders/greedy/fused_looping/row_lm_view.h"
#include "algorithms/gpu/ordered_key.h"
#include "algorithms/shared/ngram_lm/view.h"
#include "base/gpu/activation.h"
#include "base/gpu/host_device.h"
#include "base/gpu/precision.h"
#include "base/gpu/rounding.h"

namespace rtfx::fused {

constexpr int kMaxLayers = 4;    // LSTM layers
constexpr int kMaxContext = 2;   // labels that a stateless prediction network looks at
constexpr int kTileRows = 16;    // outputs of a tile
constexpr int kGroup = 5;        // tiles of the joint network's outputs that are evaluated together
constexpr int kTileColumns = 8;  // batch rows of a tile
constexpr int kChunkBytes = 64;  // of a row's inputs
constexpr int kMaxDurations = 16;

/// outputs = weights x inputs + bias.
struct Matrix {
  const void* weights;  // [tiles][chunks][2][32 lanes][2][2 rows][4 bytes]; in groups of tiles:
                        // [groups][chunks][tiles of a group][2] ...
  int tiles, chunks;
};

/// A transducer head. T is float, __nv_bfloat16 or __half by `precision`.
struct Model {
  Precision precision;
  Activation activation;
  int blank;      // V: tokens are 0..V-1
  int labels;     // tokens and blanks: V+1, more with big blanks; the durations follow
  int durations;  // D, 0 for RNN-T
  /// TDT: frames of each duration. Otherwise: frames that blank V + i skips.
  int duration_values[kMaxDurations];

  Matrix encoder;             // joint.enc [H padded to chunks, encoder width]
  const float* encoder_bias;  // [tiles * 16]
  Matrix output;              // joint_net [labels + D, H], in groups of kGroup tiles
  const float* output_bias;   // [tiles * 16]

  // LSTM. Gates are interleaved, so that a tile holds all gates of four units. Row 4 gate + unit of
  // tile u is `gate` (i, f, g, o) of unit 4 u + unit.
  int layers;                        // 0: stateless
  int units;                         // P, a multiple of 4
  Matrix recurrent[kMaxLayers];      // W_hh
  Matrix input[kMaxLayers];          // W_ih of layers above the first
  const float* bias_ih[kMaxLayers];  // [tiles * 16]
  const float* bias_hh[kMaxLayers];
  const void* first_gates;  // T [V+1][tiles * 16]: W_ih of the first layer times each embedding
  Matrix projection;        // joint.pred [H, P]
  const float* projection_bias;  // [at least tiles * 16 and H padded]

  // Stateless network: g = bias + the sum of one row per label of the context.
  int context;                           // number of labels
  const float* label_rows[kMaxContext];  // [V+1][H padded]: newest label, the one before
  // With layer norm over several labels' embeddings x, joint.pred gives (W x - m W 1) / s + bias,
  // with the mean m and the deviation s of x. So sums and sums of squares are added up over the
  // context too.
  int norm_width;                           // P; 0: no such norm
  const float* label_moments[kMaxContext];  // [V+1][2]: sum and sum of squares of the embedding
  const float* ones_row;                    // [H padded]: W 1
};

enum Count { kActive, kFound, kWindow, kSteps, kPredictions, kJointRows, kCounts };

/// State of a row (utterance) of a batch, and one entry of each list of rows.
struct Row {
  int length;
  int time;          // frame to look at next
  int label;         // last token (blank: start symbol)
  int before;        // the token before it
  int last_frame;    // frame of the last token, -1 before the first
  int run;           // tokens at last_frame
  int count;         // tokens so far
  int state_buffer;  // which of the two h buffers holds the state after the last token
  int emitted;       // whether the last step gave a token
  float score;
  int active;  // entry of the list of rows with frames left, in ascending order
  int found;   // entry of the list of active rows that got a token in this step, ascending
};

/// All rows, and counts over them. In the persistent kernel every thread block holds its own copy
/// in shared memory, and all blocks update their copies alike. The kernels of a graph share one.
/// The struct is one pointer, because the kernel has no registers to spare for a pointer per field.
struct Rows {
  int* counts;  // [kCounts], and behind them the rows

  static constexpr int kCountInts = round_up(int{kCounts}, 4);
  RTFX_HOST_DEVICE Row& operator[](int b) const {
    return reinterpret_cast<Row*>(counts + kCountInts)[b];
  }
};

/// Returns the bytes of memory that the rows of a batch take, a multiple of 16.
RTFX_HOST_DEVICE constexpr int row_bytes(int batch) {
  return Rows::kCountInts * 4 + static_cast<int>(sizeof(Row)) * batch;
}
static_assert(sizeof(Row) % 16 == 0);
/// Returns the largest number of rows that fit into `bytes` bytes of memory.
constexpr int64_t most_rows(int64_t bytes) {
  return (bytes - Rows::kCountInts * 4) / static_cast<int64_t>(sizeof(Row));
}

/// Values of Row that are kept between two pieces of an utterance, in addition to
/// Search::carried_state. Times count from the start of the next piece.
struct CarriedRow {
  int time, label, before, last_frame, run, state_buffer;
  float score;
  int unused;
};

/// Contextual biasing of rows (DeviceBias, greedy_fusion.h): bonuses that count once the model
/// alone has decided against blank, and forbidden tokens.
struct BiasView {
  NgramView trees;
  const int32_t* roots;   // [B] states of `trees`, 0: the row has no tree; nullptr: no row has one
  const bool* forbidden;  // [B][V]; nullptr: every row may have all tokens
  int32_t* carried;       // [B] state minus root, kept between pieces; nullptr: no pieces
  RowBiasView first;  // arrays of row 0, before those of the other rows; null pointers if no row
                      // has a tree or forbidden tokens

  RTFX_HOST_DEVICE bool any() const { return first.root_added != nullptr; }
  RTFX_HOST_DEVICE RowBiasView row(int b, int vocabulary) const {
    const int64_t tokens = int64_t{b} * vocabulary;
    return {first.added + tokens,  first.root_added + tokens, first.to + tokens,
            first.own_to + tokens, first.own_arcs + 2 * b,    forbidden != nullptr};
  }
};

/// The language model of all rows (greedy_fusion.h).
struct LmView {
  NgramView model;
  LmContextTable contexts;
  float alpha;       // 0: there is none
  float* bonus;      // [B][V], see RowLmView
  int32_t* next;     // [B][V]
  int32_t* carried;  // [B] states, kept between pieces; nullptr: no pieces

  RTFX_HOST_DEVICE bool any() const { return alpha != 0; }
};

/// The search of one batch.
struct Search {
  Model model;
  int batch, frames, max_symbols;
  int row_budget;              // frames that one step looks at, over all rows
  int min_window, max_window;  // per row

  const void* frames_in;   // T [B][frames][encoder width]: encoder frames
  int frame_bytes;         // of one frame, a multiple of 16
  const int64_t* lengths;  // [B]
  void* encoded;           // T [B][frames][H padded to chunks]: joint.enc of frames_in

  // The state of a row holds h, c and g, one after the other. h is T [layers][2][P padded]. c is
  // float [layers][units], with values that T can represent. g is T [H padded].
  char* state;                          // [B][state_bytes]
  int state_bytes, c_offset, g_offset;  // multiples of 16
  const uint4* state_after_start;       // of one row, after the start symbol; nullptr: not known
  // State of streams, in the layout of `state`. It is read at the start and written at the end.
  // nullptr for whole utterances.
  char* carried_state;       // [B][state_bytes]
  CarriedRow* carried_rows;  // [B]

  BiasView bias;
  LmView lm;
  const float* bonus;  // [B][V] number that `bias` and `lm` together add to the logit of a token;
                       // nullptr: neither takes part

  // [3][key_kinds][key_rows], where three steps take turns. The kinds, for each frame of a step,
  // are the best of tokens and blank, the best duration, and with a bonus the best token including
  // its bonus.
  MaxKey* keys;
  int key_kinds, key_rows;
  Rows rows;  // for the graph's kernels; the persistent kernel has its own

  // Zero before the search and after it.
  int* saw_nan;            // [B]
  unsigned* barrier;       // GridBarrier::arrived of this launch
  unsigned* next_barrier;  // the next launch's, which this launch zeroes

  int capacity;          // tokens per row
  int* tokens;           // [B][capacity]
  int* token_frames;     // [B][capacity]
  int* token_durations;  // [B][capacity], TDT
  int* token_counts;     // [B]
  float* scores;         // [B]
  bool* nan;             // [B]
  int* totals;           // [kCounts] of the whole search

  RTFX_HOST_DEVICE RowLmView lm_row(int b) const {
    const int64_t tokens = int64_t{b} * model.blank;
    return {lm.bonus + tokens, lm.next + tokens, bias.any() ? bias.first.added + tokens : nullptr,
            lm.alpha};
  }
};

}  // namespace rtfx::fused
