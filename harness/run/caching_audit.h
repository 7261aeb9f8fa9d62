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
  /// Seconds of decoding: of a turned batch, of the same once more, and of the batch as it is.
  std::vector<double> unseen, again, seen;
  /// How many times as many steps unseen[i] may have taken as seen[i], by the tokens of both.
  std::vector<double> more_steps;
  /// The words of each utterance that was decoded as it is, by its id; one entry for each time.
  std::vector<std::pair<std::string, std::vector<std::string>>> words;
  std::string failure;  // of the decoder: stage and message; empty where it came to its end
};

/// Decodes batches of a configuration with one model, dataset, decoder, batch size and dtype,
/// region by region and by one decoder that lives throughout. Up to four batches of one size are
/// drawn by `seed`. Three forms of a batch have the same lengths, so that the same memory, graphs
/// and kernels serve them:
///
///   reversed  backwards in time: other speech, which makes ready what depends on lengths alone
///   as it is  first once, then again and again: seen
///   turned    its begin moved to its end, by another part of an encoder frame each time: frames
///             that no one has seen before, unseen; at once once more: again
///
/// After the first two, a turned batch, the same again, and the batch as it is follow ten times;
/// the last one comes first every second time. The first two of these take the same work, so their
/// ratio is 1 for a decoder that remembers nothing. The turned batch and the one as it is have
/// nearly the same words, but may have other tokens where utterances are few and short; more_steps
/// bounds what that explains. Their ratio shows decoders that came with what they know. A decoder
/// that knows its utterances by their lengths gives back the words of reversed ones, which `words`
/// shows. Throws UserError, and Interrupted between batches.
CachingAudit audit_caching(const Config& config, int64_t seed);

/// audit_caching() in a child process, whose end costs the audit of this decoder alone: that is its
/// failure. The configuration is that of its file.
CachingAudit audit_in_child(const Config& config, int64_t seed);

/// The child: writes what audit_caching() returns into `file`.
void write_audit(const Config& config, int64_t seed, const std::filesystem::path& file);

}  // namespace rtfx
