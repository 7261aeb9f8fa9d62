// The key "stream" of a configuration: the load that `rtfx stream` simulates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"

namespace rtfx {

/// A rule for the largest number of streams that a server sustains. A trial passes if requests
/// begin in time and utterances end in time. The defaults are those of "c120".
struct StreamRule {
  double late = 0.001;     // share of the requests that may begin more than one period too late
  double final_ms = 1000;  // limit of the latency of requests that end an utterance
  std::string of_finals = "p95";  // percentile of this latency that must keep the limit
  double seconds = 60;            // length of a trial
  double confirm_seconds = 120;   // length of the trial that confirms the number
  double growth = 1.25;           // factor from a number that passes to the next one
  double wer = 0.02;              // largest relative increase of the streams' word error rate

  static const OptionTable<StreamRule>& table();
};

/// A rule that ends utterances of live streams, and whose latency is measured.
struct EndpointSettings {
  std::string rule;  // "pause", "token" or "vad"
  /// Seconds without a word or without speech; 0: 1 s without a word, 0.5 s without speech.
  double seconds = 0;
  std::vector<std::string> tokens;  // as find_end_tokens() takes them
  std::string vad;                  // file of a VoiceDetector
  std::string where = {};           // JSON pointer, for errors that are found later

  static const OptionTable<EndpointSettings>& table();
};

struct StreamSettings {
  /// Numbers of simultaneous streams, each of which is a case.
  std::vector<int64_t> streams = {1, 16, 64, 256};
  /// Time between two requests of a stream, and length of the new audio in each.
  double period_ms = 400;
  double chunk_ms = 400;  // audio in a request; what exceeds the period is right context
  std::string arrivals = "constant";  // as make_load() takes it
  double stagger_seconds = 10;        // time in which staggered streams begin
  /// Where the first utterance of each stream starts: "beginning" or "random".
  std::string start = "beginning";
  int64_t max_batch = 256;  // largest number of requests in a batch
  double max_wait_ms = 2;   // longest time that the oldest request waits for others
  double seconds = 30;      // time in which requests arrive
  double discard = 0.1;     // share of this time, from the start, that is not measured
  bool partial = true;      // returns the text so far after every request
  bool quality = false;     // compares the words with those of whole utterances
  std::vector<EndpointSettings> endpoints;  // measured one after the other, with `quality`
  double silence = 3;            // seconds of silence after each recording, for `endpoints`
  std::string scope = "search";  // "search", or "speech": from samples to tokens
  std::vector<double> buffer = {2, 10, 2};  // seconds, as BufferSeconds; for models without caches
  std::vector<int64_t> fewer_rows = {};     // StreamOptions::fewer_rows, below max_batch
  double slo_ms = 0;  // limit of the 99th percentile of latency for a number of streams; 0: none
  std::optional<StreamRule> rule;
};

const OptionTable<StreamSettings>& stream_keys();

/// Reads the settings by their table, and checks that they leave requests to measure. Throws
/// UserError.
StreamSettings read_stream_settings(const JsonView& view);

}  // namespace rtfx
