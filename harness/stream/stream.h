// `rtfx stream`: a streaming server in real time, with more and more streams.
//
// With the scope "search", the search alone is measured: features, encoder and log-probabilities
// are computed before, and a request brings the frames that it adds to its stream
// (harness/config/config.h). With "speech", a request begins with samples (stream_server.h). Its
// latency is from its arrival until its results are on the host: time in the queue, where it also
// waits for others to share a batch with, and its batch's work.
#pragma once

#include <vector>

#include "algorithms/hypotheses.h"
#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/results/records.h"
#include "harness/stream/stream_load.h"
#include "harness/stream/stream_rule.h"

namespace rtfx {

/// Runs every decoder that can stream with every number of streams, writes the journal (records of
/// kind "stream", docs/journal.md) and prints a table; cases that the journal holds already are not
/// run again. With `stream.rule`, every trial is a child process of this program; one is told by
/// `trial` what to do, and only records it. Returns an ExitCode: kCorrectness where a streamed
/// utterance differs from the same one decoded as a whole. Throws UserError without a key "stream",
/// and where no decoder can stream.
int stream(const Config& config, Journal::Mode mode, const StreamTrial& trial = {});

// Records of kind "stream" (docs/journal.md), and their table.

/// Sets the settings and the figures of the load.
void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& figures);

/// 99th percentile and queue are as the settings want them, or requests begin and utterances end as
/// their rule says.
bool within_limit(const StreamSettings& options, const LoadFigures& figures);

/// Whether the error rate of the streams is as low as the rule wants it.
bool keeps_words(const StreamRule& rule, const record::StreamedQuality& quality);

/// Tokens, frames and durations are those of the utterance in one piece; with `bits` scores are,
/// too.
bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits);

void print_stream_table(const record::Records& records);

/// The ExitCode that the records ask for.
int stream_outcome(const record::Records& records);

}  // namespace rtfx
