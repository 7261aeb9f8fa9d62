// Whether the figures of a journal's records agree with each other.
#pragma once

#include <string>

#include "harness/results/results.h"

namespace rtfx {

/// Returns a description of the first contradiction in the rounds of a case, or an empty text. Each
/// figure is computed again from other fields of its record:
///   rtfx.*, share.decode        audio and total time / times of regions
///   total_seconds               the sum of the regions, or the mean of the overlapped passes
///   batches                     add up to the audio, the total and the decoding of the round
///   batch_ms.*, lengths         percentiles of the batches' times
///   rtfx.first_pass             audio / the first pass
///   busy.*                      times of regions / total time of an overlapped pass. Files have
///                               no region, so busy.load is not checked.
///   memory.*, energy.*          the bytes, and the power of their passes
///   wall_seconds, gap_seconds   the total time or more; the difference of both
///   bound_by                    the stage with the greatest busy.*
///   wer, cer, oracle_wer        errors / words, errors / characters; none for empty references
///   boosted                     recall, precision and F from the counts of words and phrases
///   exactness, isolated         one grade for each utterance, and the worst of these
///   tokens.per_second           a whole number of tokens / audio
///   tokens.reference_per_second the same in all rounds
///   hashes                      the same in all rounds of a deterministic case
///
/// A record that lacks the fields of a check passes it. Two kinds of records have fewer checks: a
/// record of several shards has the regions of the slowest shard, and overlapped batches share the
/// time of regions.
std::string contradiction(const CaseResult& result);

}  // namespace rtfx
