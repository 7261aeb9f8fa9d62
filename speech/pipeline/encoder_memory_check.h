// Whether a batch fits into memory, asked before it is encoded: the kernel would end the program
// without a word, minutes later.
#pragma once

#include <cstdint>
#include <string>

#include "models/acoustic_model.h"

namespace rtfx {

/// Bytes that this process can still get: of the device, or of the machine and its control group.
int64_t free_memory(const at::Device& device);

/// Bytes that encoding so many utterances, the longest of `samples` samples, needs at least.
int64_t least_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples);

/// Throws UserError at `where` if encoding `rows` utterances, the longest of `samples` samples,
/// needs more than `free` bytes (models/encoder/encoder.h).
void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where);

}  // namespace rtfx
