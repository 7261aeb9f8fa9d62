// `rtfx stream`: measures a streaming server in real time, with more and more streams.
//
// With the scope "search", only the search is measured. Features, encoder and log-probabilities are
// computed beforehand, and a request brings the frames that it adds to its stream
// (requests.h). With "speech", a request brings samples (stream_server.h). The latency
// of a request lasts from its arrival until its results are on the host. It has two parts: the time
// in the queue, in which the request also waits for others to share a batch with, and the work of
// its batch.
#pragma once

#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/stream/stream_rule.h"

namespace rtfx {

/// Runs every decoder that can stream with every number of streams. Writes the journal (records of
/// kind "stream", docs/journal.md) and prints a table. Does not repeat cases that the journal holds
/// already. With `stream.rule`, every trial runs in a child process of this program. `trial` says
/// which one, and the child only records its result.
///
/// Returns an ExitCode: kCorrectness if a streamed utterance differs from the same utterance
/// decoded as a whole. Throws UserError if the configuration has no key "stream", or if no decoder
/// can stream.
int stream(const Config& config, Journal::Mode mode, const StreamTrial& trial = {});

}  // namespace rtfx
