// Divides an utterance into the requests of its stream. With the scope "search", each request
// brings frames of the encoder.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/config/stream_settings.h"

namespace rtfx {

/// Returns the frame behind which each request of an utterance ends. A request brings the frames of
/// one period, since those of the right context are not known yet. The request that holds the
/// utterance's end brings all remaining frames. There is at least one request. A request may bring
/// no frame.
std::vector<int64_t> request_ends(const StreamSettings& options, int64_t frames,
                                  double frame_seconds, double seconds);

/// Returns the largest number of frames that a request brings, apart from the last request of an
/// utterance.
int64_t largest_request(const StreamSettings& options, double frame_seconds);

}  // namespace rtfx
