// The audit of `rtfx verify` for caching: whether a decoder is faster on utterances that it has
// decoded before. A run decodes the same utterances round after round, so a decoder that remembers
// results would show any speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

struct CachingAudit {
  /// Seconds of decoding each turned batch (`unseen`), the same turned batch a second time
  /// (`again`), and the original batch (`seen`).
  std::vector<double> unseen, again, seen;
  /// The largest ratio of decoding steps between unseen[i] and seen[i] that their
  /// numbers of tokens explain.
  std::vector<double> more_steps;
  /// The id and the words of each utterance of the original batches, once for each time that it was
  /// decoded.
  std::vector<std::pair<std::string, std::vector<std::string>>> words;
  std::string failure;  // stage and message of the decoder's failure; empty if it did not fail
};

/// Audits one decoder for caching. `config` names one model, dataset, decoder, batch size and
/// dtype. One decoder object decodes up to four batches of one size, which are drawn by `seed`,
/// region by region.
///
/// Each batch has three forms. They have the same lengths, so that the same memory, graphs and
/// kernels serve them:
///
///   reversed  The audio runs backwards. It is other speech, and prepares whatever depends on
///             lengths alone.
///   original  The audio as it is. It is decoded again and again ("seen").
///   turned    The begin of the audio is moved to its end, each time by another part of an encoder
///             frame. So its frames are new ("unseen"). It is then decoded a second time ("again").
///
/// The reversed and the original form come once. Then a group of three is timed ten times: turned,
/// the same turned batch again, and the original. In every second group, the original comes first.
///
/// Two ratios show caching. `unseen` and `again` are the same work, so their ratio is 1 for a
/// decoder that remembers nothing. `unseen` to `seen` shows a decoder that knew the original
/// utterances from the start. These two forms have nearly the same words, but short utterances may
/// differ in tokens; more_steps bounds the ratio that this explains. A decoder that recognises
/// utterances by their lengths returns the original words for reversed ones, which `words` shows.
///
/// Throws UserError, and Interrupted between batches.
CachingAudit audit_caching(const Config& config, int64_t seed);

/// Runs audit_caching() in a child process. If the child ends early, only the audit of this decoder
/// fails. The child reads the configuration from the file that `config` was read from.
CachingAudit audit_in_child(const Config& config, int64_t seed);

/// Runs in the child: writes the result of audit_caching() into `file`.
void write_audit(const Config& config, int64_t seed, const std::filesystem::path& file);

}  // namespace rtfx
