// Checks whether a batch fits into memory, before it is encoded. Otherwise the kernel would end the
// program minutes later, without a message.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/acoustic_model.h"

namespace rtfx {

/// Returns the bytes that this process can still allocate, on the device, or in the machine and its
/// control group.
int64_t free_memory(const at::Device& device);

/// Returns the bytes that encoding needs at least for `rows` utterances, the longest of `samples`
/// samples.
int64_t least_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples);

/// Returns whether encoding needs at most half of `free` bytes, by least_encoder_memory().
bool fits_easily(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free);

/// Returns the seconds of audio, padding included, of a batch that fits easily into `free` bytes,
/// with `in_flight` batches in flight. It assumes utterances of 10 s. The result is at most 2,400
/// s, which keep a large GPU busy, and at least 30 s.
double fitting_batch_seconds(const AcousticModel& model, int64_t free, size_t in_flight);

/// Throws UserError at `where` if encoding `rows` utterances, the longest of `samples` samples,
/// needs more than `free` bytes (models/encoder/encoder.h).
void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where);

/// Returns how many chunks of a long recording are encoded together, each of `samples` samples.
/// This is `most`, or fewer, at least one, so that they fit easily into `free` bytes. Throws
/// UserError at `where` if one chunk needs more than `free` bytes.
int64_t fitting_chunks(const AcousticModel& model, int64_t most, int64_t samples, int64_t free,
                       const std::string& where);

}  // namespace rtfx
