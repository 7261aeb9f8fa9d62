#include "algorithms/shared/biasing/biasing.h"

#include <algorithm>

#include "base/error.h"

namespace rtfx {

void Biasing::prepare(const std::optional<PhraseBoostOptions>& boost,
                      const std::vector<std::string>& allowed, const AcousticModel& model,
                      const Limits& limits) {
  if (boost) {
    boost_ = *boost;
    phrases_ = boost->all_phrases();
  }
  allowed_ = allowed;
  tokenizer_ = model.tokenizer;
  vocabulary_ = model.config.vocabulary;
  tables_ = DeviceBiasTables(vocabulary_, model.device);
  if (!phrases_.empty() || !allowed_.empty()) own_ = compile({{}, {}, "allowed"});
  const auto rows = static_cast<size_t>(std::max<int64_t>(1, limits.max_batch));
  load(std::vector(rows, own_));
}

std::shared_ptr<const CompiledBias> Biasing::compile(const BiasRequest& request) const {
  RTFX_CHECK(tokenizer_ != nullptr, "a model without a tokenizer");
  std::vector<Phrase> phrases = phrases_;
  phrases.insert(phrases.end(), request.phrases.begin(), request.phrases.end());
  return compile_bias(boost_, phrases, request.allowed.value_or(allowed_), request.where,
                      *tokenizer_, vocabulary_);
}

bool Biasing::select(const EncodedBatch& batch) {
  const auto rows = static_cast<size_t>(batch.lengths.size(0));
  std::vector<std::shared_ptr<const CompiledBias>> biases(rows, own_);
  RTFX_CHECK(batch.biases.empty() || batch.biases.size() == rows, "biases of some rows alone");
  for (size_t row = 0; row < batch.biases.size(); ++row)
    if (batch.biases[row]) biases[row] = batch.biases[row];
  return load(biases);
}

bool Biasing::load(const std::vector<std::shared_ptr<const CompiledBias>>& rows) {
  has_phrases_ = std::ranges::any_of(rows, has_tree);
  return tables_.load(rows);
}

std::vector<std::string> Biasing::words() const {
  std::vector<std::string> words;
  for (const Phrase& phrase : phrases_) words.push_back(phrase.text);
  return words;
}

bool Biasing::changes(const std::optional<PhraseBoostOptions>& boost,
                      const std::vector<std::string>& allowed) {
  return (boost && boost->scale != 0) || !allowed.empty();
}

}  // namespace rtfx
