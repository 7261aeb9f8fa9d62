// Records of kind "stream" (docs/journal.md): their figures, their table and the outcome of a run.
#pragma once

#include "algorithms/hypotheses.h"
#include "harness/config/config.h"
#include "harness/results/records.h"
#include "harness/stream/lost_words.h"
#include "harness/stream/stream_load.h"

namespace rtfx {

/// Sets the settings and the figures of the load.
void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& figures);

/// Whether the record says that its limit is kept.
bool keeps_limit(const record::StreamRun& run);

/// 99th percentile and queue are as the settings want them, or requests begin and utterances end as
/// their rule says.
bool within_limit(const StreamSettings& options, const LoadFigures& figures);

/// Whether the error rate of the streams is as low as the rule wants it.
bool keeps_words(const StreamRule& rule, const record::StreamedQuality& quality);

record::LostWords lost_words_field(const LostWords& counts);

/// Tokens, frames and durations are those of the utterance in one piece; with `bits` scores are,
/// too.
bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits);

/// Returns the records without measurements that a later one of the same case replaces, and without
/// failures among the first `before` records, which earlier invocations wrote.
record::Records current_records(const record::Records& records, size_t before);

void print_stream_table(const record::Records& records);

/// The ExitCode that the records ask for.
int stream_outcome(const record::Records& records);

}  // namespace rtfx
