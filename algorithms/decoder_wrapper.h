// The base class of decoders that change something about another decoder.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/decoder.h"

namespace rtfx {

/// Forwards every call to the decoder that it owns. A class derives from it and overrides what it
/// changes.
class DecoderWrapper : public Decoder {
 public:
  explicit DecoderWrapper(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}

  Description describe() const override { return decoder_->describe(); }
  nlohmann::json options() const override { return decoder_->options(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    decoder_->prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override { return decoder_->decode(batch); }
  Counters counters() const override { return decoder_->counters(); }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    return decoder_->streams(limits);
  }
  std::vector<std::string> boosted_words() const override { return decoder_->boosted_words(); }
  std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const override {
    return decoder_->compile_bias(request);
  }

 private:
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace rtfx
