// The quality of streams: their words and delays, compared with whole utterances.
#pragma once

#include <cstdint>

#include "harness/config/stream_settings.h"
#include "harness/results/records.h"
#include "harness/run/loaded_inputs.h"
#include "harness/scoring/normalize.h"
#include "harness/stream/stream_subject.h"

namespace rtfx {

/// Returns whether a reference of the dataset has words.
bool has_words(const LoadedDataset& dataset);

/// Streams the whole dataset through a server of the subject, and compares its words with those of
/// whole utterances, which the decoder finds in `encoded`. Sets `quality` of the record, and with a
/// rule `slo`. Does nothing for a dataset without words. `seed` is that of the bootstrap.
void add_quality(record::StreamRun& run, const StreamSettings& settings,
                 const StreamSubject& subject, int64_t streams, const EncodedDataset& encoded,
                 const Normalizer& normalizer, uint64_t seed);

}  // namespace rtfx
