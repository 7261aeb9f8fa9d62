// `rtfx stream`: a streaming server in real time, with more and more streams.
//
// With the scope "search", the search alone is measured. Features, encoder and log-probabilities
// are computed before, and a request brings the frames that it adds to its stream
// (harness/config/config.h). With "speech", a request begins with samples (stream_server.h). Its
// latency is from its arrival until its results are on the host. This is time in the queue, where
// it also waits for others to share a batch with, and its batch's work.
#pragma once

#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/stream/stream_rule.h"

namespace rtfx {

/// Runs every decoder that can stream with every number of streams. It writes the journal (records
/// of kind "stream", docs/journal.md) and prints a table. Cases that the journal holds already are
/// not run again. With `stream.rule`, every trial is a child process of this program; one is told
/// by `trial` what to do, and only records it. Returns an ExitCode: kCorrectness where a streamed
/// utterance differs from the same one decoded as a whole. Throws UserError without a key "stream",
/// and where no decoder can stream.
int stream(const Config& config, Journal::Mode mode, const StreamTrial& trial = {});

}  // namespace rtfx
