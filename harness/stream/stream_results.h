// Records of kind "stream" (docs/journal.md): their figures, their table, and the exit code of a
// run.
#pragma once

#include "algorithms/hypotheses.h"
#include "harness/config/stream_settings.h"
#include "harness/results/records.h"
#include "harness/stream/lost_words.h"
#include "harness/stream/stream_load.h"

namespace rtfx {

/// Sets the settings and the figures of the load in the record.
void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& figures);

/// Returns whether the record says that its limit is kept.
bool keeps_limit(const record::StreamRun& run);

/// Returns whether the figures keep the limits of the settings: the 99th percentile and the queue,
/// or, with a rule, the begin of requests and the end of utterances.
bool within_limit(const StreamSettings& options, const LoadFigures& figures);

/// Returns whether the word error rate of the streams is as low as the rule demands.
bool keeps_words(const StreamRule& rule, const record::StreamedQuality& quality);

record::LostWords lost_words_field(const LostWords& counts);

/// Returns whether tokens, frames and durations equal those of the utterance decoded as a whole.
/// With `bits`, scores must be equal too.
bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits);

/// Returns the records that count. It drops records without measurements that a later record of the
/// same case replaces. Among the first `before` records, which earlier invocations wrote, it also
/// drops failures.
record::Records current_records(const record::Records& records, size_t before);

/// Prints the records as a table to standard output.
void print_stream_table(const record::Records& records);

/// Returns the ExitCode that the records demand.
int stream_outcome(const record::Records& records);

}  // namespace rtfx
