// Contextual biasing of single utterances: phrases and allowed characters that the manifest states.
#pragma once

#include <memory>
#include <vector>

#include "algorithms/decoder.h"
#include "datasets/utterance.h"
#include "harness/scoring/boosted_words.h"

namespace rtfx {

/// The bias of each utterance. Both lists are empty if no utterance has one, or if the decoder's
/// options do not ask for them.
struct CompiledBiases {
  std::vector<std::shared_ptr<const CompiledBias>> biases;
  /// The boosted words of each utterance, joined with those of the decoder's options.
  std::vector<std::shared_ptr<const BoostedWords>> boosted;

  bool empty() const { return biases.empty(); }
  /// Returns the batch with the bias of each row. `utterances` holds the index of each row's
  /// utterance.
  EncodedBatch with_biases(EncodedBatch batch, const std::vector<size_t>& utterances) const;
};

/// Compiles the biases of `utterances`, if the decoder's option "boost" says "utterances": true.
/// Utterances with the same phrases share one compiled bias. Throws what Decoder::compile_bias()
/// throws.
CompiledBiases compile_biases(const Decoder& decoder, const std::vector<Utterance>& utterances,
                              const Normalizer& normalizer);

}  // namespace rtfx
