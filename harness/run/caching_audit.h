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
  /// Seconds of decoding: unseen[i] and seen[i] are of the same batch, one after the other.
  std::vector<double> unseen, seen;
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
///   turned    its begin moved to its end, by another part of an encoder frame each time: the same
///             words, but frames that no one has seen before: unseen
///
/// After the first two, ten pairs of a turned batch and one as it is follow, in alternating order.
/// Both take the same work, so the ratio of their times is 1 for a decoder that remembers nothing.
/// A decoder that knows its utterances by their lengths gives back the words of reversed ones,
/// which `words` shows. Throws UserError, and Interrupted between batches.
CachingAudit audit_caching(const Config& config, int64_t seed);

/// audit_caching() in a child process, whose end costs the audit of this decoder alone: that is its
/// failure. The configuration is that of its file.
CachingAudit audit_in_child(const Config& config, int64_t seed);

/// The child: writes what audit_caching() returns into `file`.
void write_audit(const Config& config, int64_t seed, const std::filesystem::path& file);

}  // namespace rtfx
