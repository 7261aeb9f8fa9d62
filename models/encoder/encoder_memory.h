// How much memory an encoder needs at least, so that what cannot fit is refused before it is tried.
#pragma once

#include <cstdint>

#include "models/checkpoint/config.h"

namespace rtfx {

/// Bytes that the encoder's largest intermediate results take at one time, for a batch of `rows`
/// rows of `mel_frames` mel frames, in elements of `element_bytes`. These are the first
/// convolution's channels, or the scores of attention, which grow with the square of the length
/// unless its context is limited. Weights and all else come on top. On a CPU, `rtfx transcribe`
/// takes 1.03 to 1.5 times as much, beyond 0.5 GB of its own, for recordings of 8 and 16 minutes.
int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes);

/// Bytes of the fused encoder's largest intermediate results. Its attention keeps no scores, so
/// these are the channels behind the second convolution, or the values between the products of a
/// layer. Elements have two bytes, also where products have 8 bits. This is computed, not measured.
int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames);

}  // namespace rtfx
