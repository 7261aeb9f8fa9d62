// `stream.rule`: the most streams that a server sustains, by trials in processes of their own. The
// defaults of the rule (StreamRule of harness/config/config.h) are those of the project
// fastconformer-trt (docs/09-live-streaming.md, October 2026), which calls the number C120. It
// compares words with NeMo's streams, and this search with whole utterances.
#pragma once

#include <cstdint>
#include <string>

#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/results/journal.h"

namespace rtfx {

/// A trial of `stream.rule`, in a process of its own.
struct StreamTrial {
  int64_t group = -1;     // number in the plan; -1: no trial
  std::string decoder;    // its id
  int64_t streams = 0;    // at a time
  bool confirms = false;  // the long one
  std::string failure;    // why an earlier process did not come to its end, which is recorded

  bool is_one() const { return group >= 0; }
  /// Converts the trial to what follows --child on the command line, and back.
  std::string argument() const;
  static StreamTrial of(const std::string& argument);
};

/// "model/dataset/decoder/streams64/fp32", or "...streams64-confirmed...".
std::string case_name_of_streams(const Config& config, const CaseGroup& group,
                                 const std::string& decoder, int64_t streams, bool confirms);

/// Runs trials of each decoder and group of `config`, with more and more streams, and then halves
/// what is between, as most_within() does. The journal holds every trial. Prints their table and
/// returns an ExitCode, as stream() does. Throws UserError.
int stream_by_rule(const Config& config, Journal::Mode mode);

}  // namespace rtfx
