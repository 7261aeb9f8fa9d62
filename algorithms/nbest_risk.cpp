#include "algorithms/nbest_risk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "algorithms/decoder_wrapper.h"
#include "base/error.h"
#include "models/acoustic_model.h"

namespace rtfx {

const OptionTable<MbrOptions>& MbrOptions::table() {
  static const OptionTable<MbrOptions> table{{
      option("scale", &MbrOptions::scale,
             "Factor of the scores before they become probabilities. A smaller factor makes the "
             "alternatives more probable.",
             0, 1e3),
      option("unit", &MbrOptions::unit, "Unit in which errors are counted.", {"words", "tokens"}),
  }};
  return table;
}

int64_t edit_distance(std::span<const int32_t> a, std::span<const int32_t> b) {
  // Texts of one list have most words in common. Equal beginnings and ends add no distance.
  const auto [end_a, end_b] = std::ranges::mismatch(a, b);
  a = a.subspan(static_cast<size_t>(end_a - a.begin()));
  b = b.subspan(static_cast<size_t>(end_b - b.begin()));
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a = a.first(a.size() - 1);
    b = b.first(b.size() - 1);
  }
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (const int32_t symbol : a) {
    int64_t corner = row[0]++;
    for (size_t j = 1; j < row.size(); ++j) {
      const int64_t substituted = corner + (symbol == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<double> expected_errors(const std::vector<std::vector<int32_t>>& texts,
                                    const std::vector<double>& log_weights) {
  RTFX_CHECK(texts.size() == log_weights.size(), "a weight for each text");
  std::vector<double> risks(texts.size());
  if (texts.empty()) return risks;
  const double greatest = *std::ranges::max_element(log_weights);
  std::vector<double> weights;
  for (const double weight : log_weights) weights.push_back(std::exp(weight - greatest));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto distance = static_cast<double>(edit_distance(texts[i], texts[j]));
      risks[i] += weights[j] / total * distance;
      risks[j] += weights[i] / total * distance;
    }
  }
  return risks;
}

MinimumBayesRisk::MinimumBayesRisk(MbrOptions options, std::shared_ptr<const Tokenizer> tokenizer)
    : options_(std::move(options)), tokenizer_(std::move(tokenizer)) {
  RTFX_CHECK(tokenizer_ != nullptr || options_.unit == "tokens", "words need a tokenizer");
}

std::vector<std::string> MinimumBayesRisk::words_of(const Hypothesis& entry) const {
  std::istringstream text(text_of(entry, *tokenizer_));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::vector<std::vector<int32_t>> MinimumBayesRisk::texts_of(
    const std::vector<Hypothesis>& entries) const {
  std::vector<std::vector<int32_t>> texts;
  std::map<std::string, int32_t> numbers;
  for (const Hypothesis& entry : entries) {
    if (options_.unit == "tokens") {
      texts.push_back(entry.tokens);
      continue;
    }
    std::vector<int32_t>& text = texts.emplace_back();
    for (const std::string& word : words_of(entry))
      text.push_back(numbers.emplace(word, static_cast<int32_t>(numbers.size())).first->second);
  }
  return texts;
}

void MinimumBayesRisk::sort(Hypothesis& hypothesis) const {
  std::vector<Hypothesis>& list = hypothesis.nbest;
  if (list.size() < 2 || hypothesis.nan) return;
  std::vector<double> weights;
  for (const Hypothesis& entry : list) weights.push_back(options_.scale * entry.score);
  const std::vector<double> risks = expected_errors(texts_of(list), weights);
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return risks[i]; });
  std::vector<Hypothesis> sorted;
  for (const size_t i : order) sorted.push_back(std::move(list[i]));
  hypothesis = sorted.front();
  hypothesis.nbest = std::move(sorted);
}

namespace {

/// Streams whose final results are chosen by risk.
class StreamsByRisk : public Streams {
 public:
  StreamsByRisk(std::unique_ptr<Streams> streams, std::shared_ptr<const MinimumBayesRisk> risk)
      : streams_(std::move(streams)), risk_(std::move(risk)) {}

  at::Tensor project(const at::Tensor& frames) override { return streams_->project(frames); }
  int64_t open() override { return streams_->open(); }
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override {
    streams_->set_bias(stream, std::move(bias));
  }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
    streams_->push(streams, pieces);
  }
  PartialResult partial(int64_t stream) override { return streams_->partial(stream); }
  Hypothesis finish(int64_t stream) override {
    Hypothesis result = streams_->finish(stream);
    risk_->sort(result);
    return result;
  }
  void close(int64_t stream) override { streams_->close(stream); }

 private:
  std::unique_ptr<Streams> streams_;
  std::shared_ptr<const MinimumBayesRisk> risk_;
};

class DecoderByRisk : public DecoderWrapper {
 public:
  DecoderByRisk(std::unique_ptr<Decoder> decoder, MbrOptions options)
      : DecoderWrapper(std::move(decoder)), options_(std::move(options)) {}

  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    risk_ = std::make_shared<const MinimumBayesRisk>(options_, model->tokenizer);
    DecoderWrapper::prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override {
    Hypotheses result = DecoderWrapper::decode(batch);
    result.risk = risk_;
    return result;
  }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    auto streams = DecoderWrapper::streams(limits);
    return streams == nullptr ? nullptr
                              : std::make_unique<StreamsByRisk>(std::move(streams), risk_);
  }

 private:
  MbrOptions options_;
  std::shared_ptr<const MinimumBayesRisk> risk_;
};

}  // namespace

std::unique_ptr<Decoder> with_minimum_bayes_risk(std::unique_ptr<Decoder> decoder,
                                                 std::string_view where) {
  const nlohmann::json options = decoder->options();
  if (!options.contains("mbr") || options.at("mbr").is_null()) return decoder;
  const std::string here = fmt::format("{}/mbr", where);
  if (options.at("nbest").get<int64_t>() < 2)
    throw UserError(here, "compares the texts of an n-best list, and \"nbest\" is 1",
                    "set \"nbest\" to the number of texts, such as 8");
  MbrOptions mbr = MbrOptions::table().fill(options.at("mbr"), here);
  return std::make_unique<DecoderByRisk>(std::move(decoder), std::move(mbr));
}

}  // namespace rtfx
