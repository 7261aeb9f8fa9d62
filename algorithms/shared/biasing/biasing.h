// The contextual biasing of a decoder: its options "boost" and "allowed", and requests of single
// rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/biasing/device_bias.h"
#include "models/acoustic_model.h"

namespace rtfx {

class Biasing {
 public:
  /// Decoders call this in prepare(), before the search is tried or recorded. Throws UserError.
  void prepare(const std::optional<PhraseBoostOptions>& boost,
               const std::vector<std::string>& allowed, const AcousticModel& model,
               const Limits& limits);

  /// Implements Decoder::compile_bias().
  std::shared_ptr<const CompiledBias> compile(const BiasRequest& request) const;

  /// Loads the bias of a batch's rows before it is searched. Returns true where a recorded search
  /// must be recorded again.
  bool select(const EncodedBatch& batch);

  /// Returns the bias of the first `count` rows of the current batch.
  DeviceBias rows(int64_t count) const { return tables_.rows(count); }

  /// Returns whether any row of the current batch has phrases.
  bool has_phrases() const { return has_phrases_; }

  /// Implements Decoder::boosted_words().
  std::vector<std::string> words() const;

  /// Returns whether these options change the results of rows without a request of their own.
  static bool changes(const std::optional<PhraseBoostOptions>& boost,
                      const std::vector<std::string>& allowed);

 private:
  bool load(const std::vector<std::shared_ptr<const CompiledBias>>& rows);

  PhraseBoostOptions boost_;
  std::vector<std::string> allowed_;
  std::vector<Phrase> phrases_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t vocabulary_ = 0;
  std::shared_ptr<const CompiledBias> own_;  // of rows without a request; null: no bias
  DeviceBiasTables tables_;
  bool has_phrases_ = false;
};

}  // namespace rtfx
