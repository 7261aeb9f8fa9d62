// The kernels of the fused encoder. This header has no LibTorch, because kernels include it.
//
// The frames of all utterances of a batch are the rows of one matrix. They usually have no padding
// between them. RowLayout says where each utterance begins. All functions enqueue work on `stream`
// and do not wait. They throw std::runtime_error with the call that CUDA refused. Matrices are
// dense and row-major, with elements of `precision` (bf16 or fp16) unless said otherwise. Sums are
// float32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/gpu/precision.h"

namespace rtfx {

/// A layout on the device: frame t of utterance b is row offsets[b] + t.
struct RowLayout {
  const int32_t* offsets;  // [utterances]
  const int32_t* lengths;  // [utterances] frames
  int32_t utterances;
  int32_t longest;  // no length is greater
};

/// The input of a matrix product. Its elements have the type `precision`, or are e4m3 (8-bit
/// floats) with a factor per row.
struct ProductInput {
  void* values;   // [rows, width]
  float* scales;  // [rows], or null
};

struct NormWeights {
  const void* weight;  // [width]
  const void* bias;
};

/// The lengths at each level of sub-sampling, and the first row of each utterance. For parts of
/// longer utterances, it also has where they begin in the utterance, at each level.
struct LayoutPlan {
  const int64_t* feature_lengths;  // [utterances] in
  const int64_t* feature_begins;   // [utterances] in, or null: all begin at 0
  int32_t* lengths;                // [strides + 1, utterances] out, the features' own first
  int32_t* begins;                 // [strides + 1, utterances] out; null if feature_begins is
  int32_t* offsets;                // [utterances] out
  int64_t* encoded_lengths;        // [utterances] out
  int32_t utterances;
  int32_t strides;        // number of convolutions that halve
  bool causal;            // EncoderConfig::causal_downsampling
  int32_t padded_frames;  // rows per utterance; 0 = as many as it has frames
};
void plan_layout(const LayoutPlan& plan, cudaStream_t stream);

/// The first two strided convolutions: 3 x 3 from one channel, ReLU, and 3 x 3 of each channel.
/// Before each of them, frames beyond a length or before a begin count as zeros.
struct FirstConvolutions {
  const float* features;           // [utterances, mel_bins, mel_frames]
  const int32_t* lengths;          // [3, utterances], levels 0 to 2
  const int32_t* begins;           // [3, utterances], or null
  const int32_t* offsets;          // [utterances], at the last level
  const float *weight1, *weight2;  // [9, channels]
  const float *bias1, *bias2;      // [channels]
  void* output;                    // [rows << scale, halved twice(mel_bins), channels]
  int32_t utterances, mel_bins, mel_frames, channels;
  int32_t before;   // zeros before the first frame and bin: 1, or 2 for causal
  int32_t longest;  // frames of level 2
  int32_t scale;    // level 2 has 2^scale times as many rows as the last level
  /// Frames of level 2 that a block computes: 1, 2 or 8. With 0, the number depends on the batch.
  /// The outputs do not depend on it.
  int32_t run = 0;
};
void first_convolutions(Precision precision, const FirstConvolutions& in, cudaStream_t stream);

/// A strided 3 x 3 convolution of each channel.
struct DepthwiseStride {
  const void* input;           // [rows << (scale + 1), bins, channels]
  const int32_t* lengths;      // [2, utterances]: of the input and of the output
  const int32_t* begins;       // [2, utterances], or null
  const int32_t* offsets;      // [utterances], at the last level
  const float *weight, *bias;  // [9, channels], [channels]
  void* output;                // [rows << scale, halved(bins), channels]
  int32_t utterances, bins, halved_bins, channels;
  int32_t before, longest, scale;  // longest: frames of the output
};
void depthwise_stride(Precision precision, const DepthwiseStride& in, cudaStream_t stream);

/// Copies the rows [utterances, frames, width] of a padded batch to the rows of a layout.
void pack_rows(Precision precision, const void* padded, int32_t frames, int32_t width,
               const RowLayout& layout, void* packed, cudaStream_t stream);

/// Computes y = norm(x) for each row.
void layer_norm(Precision precision, const void* x, int64_t rows, int32_t width,
                const NormWeights& norm, const ProductInput& y, cudaStream_t stream);
/// Computes x = norm(x) and y = next(x), for the transition from one layer to the next.
void layer_norms(Precision precision, void* x, int64_t rows, int32_t width, const NormWeights& norm,
                 const NormWeights& next, const ProductInput& y, cudaStream_t stream);
/// Writes norm(x) into a padded batch [utterances, layout.longest, width]. Rows beyond a length
/// keep their values.
void layer_norm_padded(Precision precision, const void* x, int32_t width, const NormWeights& norm,
                       const RowLayout& layout, void* padded, cudaStream_t stream);
constexpr int32_t kWidestNorm = 2048;
constexpr int64_t kWidestScaledRow = 8192;  // values of a row that becomes 8-bit floats

/// Computes y = x * sigmoid(x), where x is [rows, width]. y may be x.
void silu(Precision precision, const void* x, int64_t rows, int32_t width, const ProductInput& y,
          cudaStream_t stream);

/// The operands of a matrix product x W^T by CUTLASS. The current device has compute
/// capability 9.0, and the matrices begin at multiples of 16 bytes.
struct Product {
  const void* x;          // [rows, in]
  const void* weight;     // [out, in]
  const void* bias;       // [out], or null
  void* y;                // [rows, out], not x
  int32_t rows, in, out;  // at least 1 row; `in` and `out` are multiples of 8
};
/// Computes y = silu(x W^T + b). Sums and SiLU are float32, and only y is rounded. The bits of a
/// row depend neither on other rows nor on their number. It is one kernel without workspace.
void silu_product(Precision precision, const Product& in, cudaStream_t stream);
/// Limits of the number of rows, in ascending order. Up to each limit, silu_product() uses smaller
/// tiles than above it.
constexpr int32_t kSiluRows[] = {64, 128, 768};

/// With few rows, a product has fewer tiles than a GPU has multiprocessors, and those without a
/// tile read no weights. So product_parts() splits the inputs into kParts parts, which have tiles
/// of their own, and add_norm() adds the sums of the parts.
constexpr int32_t kFewRows = kSiluRows[1], kParts = 4;
/// Computes the sums of x W^T over each part of the inputs, y [kParts, rows, out] float32. `in.in`
/// is a multiple of 8 kParts, in.bias is null, and there are at most kFewRows rows. The bits of a
/// row depend neither on other rows nor on their number. It is one kernel without workspace.
void product_parts(Precision precision, const Product& in, cudaStream_t stream);
/// Computes y = x W^T + b for at most kFewRows rows. Only y is rounded. The bits of a row depend
/// neither on other rows nor on their number. It is one kernel without workspace.
void few_rows_product(Precision precision, const Product& in, cudaStream_t stream);
/// Returns whether an H100 has a multiprocessor for each tile of a product with this number of
/// parts, and shared memory for nearly all inputs of a tile. Other products of few rows are faster
/// in cuBLASLt.
bool suits_few_rows(int64_t rows, int64_t in, int64_t out, int32_t parts);

/// A product that is still to be added to rows x: x + bias + the sum of the parts, rounded once.
struct ProductParts {
  const float* sums;  // [kParts, rows, width], of product_parts()
  const void* bias;   // [width], or null
};
/// Adds the product to x, then computes y = norm(x). This function and the next two must directly
/// follow product_parts() on the stream. They read weights and bias while it runs, and wait for its
/// end before everything else.
void add_norm(Precision precision, void* x, int64_t rows, int32_t width, const ProductParts& parts,
              const NormWeights& norm, void* y, cudaStream_t stream);
/// Adds the product to x, then computes x = norm(x) and y = next(x).
void add_norms(Precision precision, void* x, int64_t rows, int32_t width, const ProductParts& parts,
               const NormWeights& norm, const NormWeights& next, void* y, cudaStream_t stream);
/// Computes layer_norm_padded() of the sum of x [rows, width] and the product. x stays as it is.
void add_norm_padded(Precision precision, const void* x, int64_t rows, int32_t width,
                     const ProductParts& parts, const NormWeights& norm, const RowLayout& layout,
                     void* padded, cudaStream_t stream);

/// The state of a layer for streams (models/encoder/fused/fused_encoder.h). Each stream has a ring
/// of the frames of a step and the earlier ones that the step still sees. Frame f of a stream is in
/// row f % (rows of the ring). A step has the same number of frames for all utterances.
struct LayerRings {
  void* keys_values;       // [streams, attended + frames, 2 width]
  void* gated;             // [streams, convolved + frames, width]: output of the gated unit
  const int64_t* slots;    // [utterances]: the stream of each utterance
  const int64_t* encoded;  // [utterances]: frames of the stream before the step
  int32_t attended;        // frames that attention sees before the step
  int32_t convolved;       // frames that the convolution sees before the step
  int32_t frames;          // frames of a step
};
/// Copies keys and values of a step's frames from qkv [rows, 3 width] into the rings. The slots of
/// utterances with frames must differ.
void keep_keys(const void* qkv, int32_t width, const LayerRings& rings, const RowLayout& layout,
               cudaStream_t stream);

/// The gated unit, the convolution over time, the norm of each frame (where there is one) and SiLU.
struct TimeConvolution {
  const void* gates;            // [rows, 2 width]: values, then their gates
  const float* weight;          // [kernel, width]
  const float* bias;            // [width]
  NormWeights norm;             // null = none
  void* output;                 // [rows, width]
  int32_t width, kernel, left;  // left: frames that the kernel reaches back
  /// In streams, the rings hold the frames before the step, and receive the gated unit's output.
  /// The kernel reaches back only.
  const LayerRings* rings;  // null = whole utterances
  /// Frames that a block computes: a multiple of 8. With 0, the number depends on the batch. The
  /// outputs do not depend on it.
  int32_t run = 0;
};
constexpr int32_t kWidestConvolution = 4096;
void convolve_time(Precision precision, const TimeConvolution& in, const RowLayout& layout,
                   cudaStream_t stream);

/// Self-attention with relative positions (Dai et al. 2019) and an online softmax (Milakov and
/// Gimelshein 2018; Dao et al. 2022). Scores and biases are never stored in device memory.
struct RelativeAttentionInput {
  const void* qkv;        // [rows, 3 width]: queries, keys, values, of all heads each
  const void* positions;  // [2 reach - 1, width]; row reach - 1 - d has distance query - key = d
  const void *bias_u, *bias_v;  // [width]
  void* output;                 // [rows, width]
  int32_t width, heads;
  int32_t reach;               // the table's distances are from -(reach - 1) to reach - 1
  int32_t left, right, chunk;  // EncoderConfig
  /// In streams, all frames of a step see each other and the frames in the rings. The rings also
  /// hold keys and values of the step's frames. left, right and chunk are not used.
  const LayerRings* rings;  // null = whole utterances
};
constexpr int32_t kWidestHead = 128;
void attend(Precision precision, const RelativeAttentionInput& in, const RowLayout& layout,
            cudaStream_t stream);

// The kernels of features, around cuFFT's transform, compute in float32.

/// Cuts windows of pre-emphasised audio, as the transform takes them.
struct FeatureWindows {
  const float* audio;      // [utterances, samples]; values at or beyond a length are not read
  const int64_t* lengths;  // [utterances] samples
  const float* window;     // [n_fft]
  float* frames;           // [utterances, count, n_fft] out; only frames within a length
  int64_t samples;
  int32_t utterances, count, n_fft, hop;
  float preemphasis;
};
void cut_windows(const FeatureWindows& in, cudaStream_t stream);

/// Logarithms of the mel values of spectra.
struct MelValues {
  const float2* spectra;    // [utterances, count, bins]
  const int64_t* lengths;   // [utterances] samples
  const float* filterbank;  // [mel_bins, bins]
  const int32_t* ranges;    // [mel_bins, 2]: a filter's first bin and the one after its last
  float* values;            // [utterances, mel_bins, count] out; only frames within a length
  int32_t utterances, count, bins, mel_bins, hop;
  float guard;
  bool clamp;  // `guard` is the lower limit; otherwise it is added
};
void mel_values(const MelValues& in, cudaStream_t stream);

/// Normalises each mel bin over the frames of an utterance in place: (x - mean) / (deviation +
/// 1e-5). Writes zeros beyond its frames. An utterance of one frame becomes empty.
struct FeatureNorm {
  float* values;           // [utterances, mel_bins, count]
  const int64_t* lengths;  // [utterances] samples
  int64_t* frame_lengths;  // [utterances] out
  int32_t utterances, mel_bins, count, hop;
};
void normalise_features(const FeatureNorm& in, cudaStream_t stream);

}  // namespace rtfx
