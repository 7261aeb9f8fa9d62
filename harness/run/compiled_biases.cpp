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
  CompiledBiases all;
  std::map<std::string, std::shared_ptr<const CompiledBias>> made;
  for (const Utterance& utterance : utterances) {
    std::vector<std::string> words = decoder.boosted_words();
    for (const Phrase& phrase : utterance.boost) words.push_back(phrase.text);
    all.boosted.push_back(boosted_words(words, normalizer));
    std::shared_ptr<const CompiledBias>& bias = all.biases.emplace_back();
    if (!asks(utterance)) continue;
    const std::string key = json{to_json(utterance.boost), utterance.allowed}.dump();
    std::shared_ptr<const CompiledBias>& known = made[key];
    if (!known) known = decoder.compile_bias(request_of(utterance));
    bias = known;
  }
  return all;
}

}  // namespace rtfx
