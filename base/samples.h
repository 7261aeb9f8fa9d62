// The audio samples that a model can compute with.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rtfx {

/// Returns whether no sample is NaN, infinite or beyond 1e12.
bool are_valid_samples(std::span<const float> samples);

/// Throws UserError(where, problem, remedy) where a sample is not valid. The problem names
/// the first such sample by its index, which is `first` for samples[0].
void require_valid_samples(std::span<const float> samples, std::string_view where,
                           std::string_view remedy, size_t first = 0);

}  // namespace rtfx
