// Whether a decoder returned what hypotheses.h promises. The harness asks before it reads a result.
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
  /// `options`: the decoder's. Those with `max_symbols` limit the tokens of a frame.
  ResultRules(const Description& decoder, const ModelConfig& model,
              const nlohmann::json& options = {});
  ResultRules(const Decoder& decoder, const ModelConfig& model)
      : ResultRules(decoder.describe(), model, decoder.options()) {}

  int64_t vocabulary;              // tokens are below it; blank is not
  int64_t max_symbols = 0;         // of a transducer, tokens at one frame; 0: no limit
  bool is_ctc = false;             // then no row has more tokens than frames
  std::vector<int64_t> durations;  // that tokens may have; empty: results have no durations
};

/// Shapes, dtypes, strides and devices, which to_host() relies on. Reads no value, and so does not
/// wait for the device. Throws WrongResult.
void check_layout(const Hypotheses& result, const EncodedBatch& batch, const ResultRules& rules);

/// Tokens, frames, durations and scores on the host, those of n-best lists too. Rows that are
/// marked as NaN are left out: they are an error already. Throws WrongResult.
void check_values(const std::vector<Hypothesis>& rows, const EncodedBatch& batch,
                  const ResultRules& rules);

}  // namespace rtfx
