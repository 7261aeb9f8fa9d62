// What a decoder makes of its options "boost" and "allowed", and of what single rows ask for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/bias_request.h"
#include "algorithms/decoder.h"
#include "algorithms/shared/boosting/bias_tables.h"
#include "models/acoustic_model.h"

namespace rtfx {

class DecoderBias {
 public:
  /// For Decoder::prepare(), before the search is tried or recorded. Throws UserError.
  void prepare(const std::optional<Boosting>& boost, const std::vector<std::string>& allowed,
               const AcousticModel& model, const Limits& limits);

  /// For Decoder::compile_bias().
  std::shared_ptr<const TokenBias> compile(const BiasRequest& request) const;

  /// Before a batch is searched: what its rows have. True where a recorded search must be recorded
  /// anew.
  bool select(const EncodedBatch& batch);

  /// Of rows 0 .. count - 1 of that batch.
  RowBias rows(int64_t count) const { return tables_.rows(count); }

  /// For Decoder::boosted_words().
  std::vector<std::string> words() const;

  /// Whether rows that ask for nothing differ from a search without any of this.
  static bool changes(const std::optional<Boosting>& boost,
                      const std::vector<std::string>& allowed);

 private:
  Boosting boost_;
  std::vector<std::string> allowed_;
  std::vector<Phrase> phrases_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t vocabulary_ = 0;
  std::shared_ptr<const TokenBias> own_;  // of rows that ask for nothing; null: nothing
  BiasTables tables_;
};

}  // namespace rtfx
