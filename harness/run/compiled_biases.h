// Contextual biasing that single utterances of a dataset ask for: phrases and allowed characters.
#pragma once

#include <memory>
#include <vector>

#include "algorithms/decoder.h"
#include "datasets/dataset.h"
#include "harness/scoring/boosted_words.h"

namespace rtfx {

/// Biases by utterance. There are none where no utterance asks for one, or the decoder is not
/// asked.
struct CompiledBiases {
  std::vector<std::shared_ptr<const CompiledBias>> biases;
  /// With the words of the decoder's options.
  std::vector<std::shared_ptr<const BoostedWords>> boosted;

  bool empty() const { return biases.empty(); }
  /// The batch with what its rows have; `utterances`: of each row.
  EncodedBatch with_biases(EncodedBatch batch, const std::vector<size_t>& utterances) const;
};

/// A decoder is asked where its option "boost" is given and says "utterances": true. Utterances
/// that ask for the same, or for nothing, share both. Throws what Decoder::compile_bias() does.
CompiledBiases compile_biases(const Decoder& decoder, const std::vector<Utterance>& utterances,
                              const Normalizer& normalizer);

}  // namespace rtfx
