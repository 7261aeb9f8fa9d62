// The base class of decoders with contextual biasing: their options have the members `boost`
// (std::optional<PhraseBoostOptions>) and `allowed` (std::vector<std::string>).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/biasing/biasing.h"

namespace rtfx {

template <class OptionStruct>
class BiasedDecoder : public DecoderBase<OptionStruct> {
 public:
  using DecoderBase<OptionStruct>::DecoderBase;

  std::vector<std::string> boosted_words() const override { return bias_.words(); }

  std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const override {
    return takes_biases() ? bias_.compile(request) : Decoder::compile_bias(request);
  }

 protected:
  /// Returns whether utterances may have phrases and characters of their own.
  virtual bool takes_biases() const { return true; }

  /// Compiles the options, before the search is tried or recorded. Throws UserError.
  void prepare_bias(const AcousticModel& model, const Limits& limits) {
    bias_.prepare(this->options_.boost, this->options_.allowed, model, limits);
  }

  /// Returns whether the options change the results of utterances without a request of their own.
  bool is_biased() const { return Biasing::changes(this->options_.boost, this->options_.allowed); }

  Biasing bias_;
};

}  // namespace rtfx
