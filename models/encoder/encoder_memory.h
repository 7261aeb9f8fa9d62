// How much memory an encoder needs at least, so that what cannot fit is refused before it is tried.
#pragma once

#include <cstdint>

#include "models/checkpoint/config.h"

namespace rtfx {

/// Bytes that the encoder's largest intermediate results take at one time, for a batch of `rows`
/// rows of `mel_frames` mel frames, in elements of `element_bytes`: the scores of attention, which
/// grow with the square of the length unless its context is limited, or the first convolution's
/// channels. Weights and all else come on top: `rtfx transcribe` on the CPU took 1.03 to 1.15 times
/// this beyond its own 0.5 GB for 16 minutes in float32 and bfloat16 and 8 in float32, and 1.5
/// times for 8 in bfloat16.
int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes);

/// The same of the fused encoder, whose attention keeps no scores: the channels behind the second
/// convolution, or what lies between the products of a layer. Its elements have two bytes, also
/// where products are of 8 bits. Reckoned, not measured.
int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames);

}  // namespace rtfx
