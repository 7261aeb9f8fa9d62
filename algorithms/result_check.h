// Checks that the results of a decoder keep the contract of hypotheses.h. The pipeline and the
// library call them on every batch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/hypotheses.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// The values that the results of a decoder may have.
struct ResultRules {
  /// `options` are the decoder's. If they have "max_symbols", it limits the tokens of a frame.
  ResultRules(const Description& decoder, const ModelConfig& model,
              const nlohmann::json& options = {});
  ResultRules(const Decoder& decoder, const ModelConfig& model)
      : ResultRules(decoder.describe(), model, decoder.options()) {}

  int64_t vocabulary;       // number of tokens without blanks; valid ids are below it
  int64_t max_symbols = 0;  // largest number of tokens of a transducer at one frame; 0: no limit
  bool is_ctc = false;      // if true, no row has more tokens than frames
  std::vector<int64_t> durations;  // allowed durations of tokens; empty if results have none
};

/// Checks the shapes, dtypes, strides and devices on which to_host() relies. Reads no value, and so
/// does not wait for the device. Throws WrongResult.
void check_layout(const Hypotheses& result, const EncodedBatch& batch, const ResultRules& rules);

/// Checks tokens, frames, durations and scores on the host, including those of n-best lists. Skips
/// rows that are marked as NaN, since they are an error already. Throws WrongResult.
void check_values(const std::vector<Hypothesis>& rows, const EncodedBatch& batch,
                  const ResultRules& rules);

}  // namespace rtfx
