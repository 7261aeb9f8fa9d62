#include "harness/run/compiled_biases.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"

namespace rtfx {
namespace {

using nlohmann::json;

bool is_asked(const Decoder& decoder) {
  const json options = decoder.options();
  const json boost = options.is_object() ? options.value("boost", json()) : json();
  return boost.is_object() && boost.contains("utterances") && boost.at("utterances") == true;
}

}  // namespace

EncodedBatch CompiledBiases::with_biases(EncodedBatch batch,
                                         const std::vector<size_t>& utterances) const {
  if (empty()) return batch;
  batch.biases.clear();
  for (const size_t i : utterances) batch.biases.push_back(biases[i]);
  return batch;
}

CompiledBiases compile_biases(const Decoder& decoder, const std::vector<Utterance>& utterances,
                              const Normalizer& normalizer) {
  const auto request_of = [](const Utterance& u) {
    return BiasRequest{u.boost, u.allowed, u.where};
  };
  const auto asks = [&](const Utterance& u) { return !request_of(u).empty(); };
  if (!is_asked(decoder) || std::ranges::none_of(utterances, asks)) return {};
  struct Shared {
    std::shared_ptr<const CompiledBias> bias;
    std::shared_ptr<const BoostedWords> boosted;
  };
  CompiledBiases all;
  std::map<std::string, Shared> made;  // indexed by the request as JSON
  for (const Utterance& utterance : utterances) {
    const json allowed = utterance.allowed ? json(*utterance.allowed) : json();
    Shared& shared = made[json::array({to_json(utterance.boost), allowed}).dump()];
    if (!shared.boosted) {
      std::vector<std::string> words = decoder.boosted_words();
      for (const Phrase& phrase : utterance.boost) words.push_back(phrase.text);
      shared.boosted = std::make_shared<const BoostedWords>(boosted_words(words, normalizer));
      if (asks(utterance)) shared.bias = decoder.compile_bias(request_of(utterance));
    }
    all.biases.push_back(shared.bias);
    all.boosted.push_back(shared.boosted);
  }
  return all;
}

}  // namespace rtfx
