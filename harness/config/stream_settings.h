// The key "stream" of a configuration: what `rtfx stream` simulates.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"

namespace rtfx {

struct StreamSettings {
  std::vector<int64_t> streams = {1, 16, 64, 256};  // at a time; a case each
  double period_ms = 400;             // between the requests of a stream, so much new audio each
  double chunk_ms = 400;              // audio in a request; beyond the period: right context
  std::string arrivals = "constant";  // or "poisson"
  int64_t max_batch = 256;            // requests
  double max_wait_ms = 2;             // how long the oldest request waits for others
  double seconds = 30;                // how long requests arrive
  double discard = 0.1;          // share of these seconds, from the start, that is not measured
  bool partial = true;           // with the text so far after every request
  std::string scope = "search";  // or "speech": from samples to tokens
  std::vector<double> buffer = {2, 10, 2};  // seconds, as BufferSeconds: models without caches
  double slo_ms = 0;  // 99th percentile of latency that a number of streams must keep; 0: none
};

const OptionTable<StreamSettings>& stream_keys();

/// Reads the settings by their table, and checks that they leave something to measure. Throws
/// UserError.
StreamSettings read_stream_settings(const JsonView& view);

/// Behind which frame each request of an utterance ends. A request brings the frames of one period,
/// since those of the right context are not known yet; the one that holds the utterance's end
/// brings all that are left. At least one; a request may bring none.
std::vector<int64_t> request_ends(const StreamSettings& options, int64_t frames,
                                  double frame_seconds, double seconds);

/// The most frames that a request brings, but for an utterance's last.
int64_t largest_request(const StreamSettings& options, double frame_seconds);

}  // namespace rtfx
