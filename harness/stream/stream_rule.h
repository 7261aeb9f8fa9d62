// `stream.rule`: finds the largest number of streams that a server sustains. Each trial runs in a
// process of its own. The defaults of the rule (StreamRule of harness/config/stream_settings.h) are
// those of the project fastconformer-trt (docs/09-live-streaming.md, October 2026), which calls
// this number C120. That project compares words with those of NeMo's streams. rtfx compares them
// with those of whole utterances.
#pragma once

#include <cstdint>
#include <string>

#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/results/journal.h"

namespace rtfx {

/// One trial of `stream.rule`.
struct StreamTrial {
  int64_t group = -1;     // number of the group in the plan; -1: no trial
  std::string decoder;    // id of the decoder
  int64_t streams = 0;    // number of simultaneous streams
  bool confirms = false;  // the long trial that confirms the number
  std::string failure;    // why an earlier process ended early, which is then recorded

  bool is_one() const { return group >= 0; }
  /// Converts the trial to the argument of --child on the command line, and back.
  std::string argument() const;
  static StreamTrial of(const std::string& argument);
};

/// Returns the case name "model/dataset/decoder/streams64/fp32", or "...streams64-confirmed...".
std::string case_name_of_streams(const Config& config, const CaseGroup& group,
                                 const std::string& decoder, int64_t streams, bool confirms);

/// Finds the number of streams of each decoder and group of `config` by trials, as most_within()
/// searches. Records every trial in the journal. Prints a table of the trials. Returns an ExitCode,
/// as stream() does. Throws UserError.
int stream_by_rule(const Config& config, Journal::Mode mode);

}  // namespace rtfx
