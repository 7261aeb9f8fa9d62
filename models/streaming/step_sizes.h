// The sizes of a cache-aware encoder's steps, and which encoders are.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/checkpoint/config.h"

namespace rtfx {

/// The sizes that NeMo's ConformerEncoder.setup_streaming_params() computes, by its names. Where
/// there are two numbers, the first is that of a stream's first step.
struct StepSizes {
  std::array<int64_t, 2> chunk_size;             // mel frames that a step gets
  std::array<int64_t, 2> shift_size;             // mel frames that it goes on by
  std::array<int64_t, 2> pre_encode_cache_size;  // mel frames before them that it sees again
  int64_t drop_extra_pre_encoded;   // encoder frames that come of these: not of the first step
  int64_t valid_out_len;            // encoder frames of a full step
  int64_t last_channel_cache_size;  // encoder frames that attention sees before the step's
  int64_t last_time_cache_size;     // encoder frames that the convolutions see before them
  int64_t cache_drop_size;          // encoder frames computed again by the next step: none here
};

/// The sizes for an encoder to which why_not_cache_aware() does not object.
StepSizes step_sizes(const EncoderConfig& encoder);

/// The reason why caches cannot give a model's results for the whole utterance; empty if they can.
/// They can where every layer sees a limited number of frames before a chunk and nothing behind it:
///
///   - att_context_style is chunked_limited, or regular without right context;
///   - sub-sampling is by causal convolutions, and all convolutions are causal;
///   - there is no norm over time, no normalisation over the utterance, no reduction of frames.
std::string why_not_cache_aware(const ModelConfig& model);

}  // namespace rtfx
