// This plugin is for the tests of the proof by replay. It returns a greedy search's results with
// one error planted in each row, or the results of a search whose logits were rounded to fp8. The
// error "seam" concerns streams only: they lose the words where pieces meet.
#include <algorithm>
#include <map>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "models/tokenizers/tokenizer.h"
#include "tests/support/planted_errors.h"

namespace rtfx {
namespace {

struct PlantingDecoderOptions {
  std::string error = "none", search = "label_looping";
  int64_t max_symbols = 10;

  static const OptionTable<PlantingDecoderOptions>& table() {
    using O = PlantingDecoderOptions;
    static const OptionTable<O> table{{
        option("error", &O::error, "what is planted",
               {"none", "token", "frame", "duration", "fp8", "fp8_once", "seam"}),
        option("search", &O::search, "whose results", {"label_looping", "fused_looping"}),
        option("max_symbols", &O::max_symbols, "tokens at one frame", 1),
    }};
    return table;
  }
};

/// The streams of a search, whose results lack the words at the borders of two pieces.
class LossyStreams : public Streams {
 public:
  LossyStreams(std::unique_ptr<Streams> search, std::shared_ptr<const AcousticModel> model)
      : search_(std::move(search)), model_(std::move(model)) {}

  at::Tensor project(const at::Tensor& frames) override { return search_->project(frames); }
  int64_t open() override { return search_->open(); }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
    search_->push(streams, pieces);
    for (size_t i = 0; i < streams.size(); ++i) {
      std::vector<int64_t>& ends = ends_[streams[i]];
      ends.push_back((ends.empty() ? 0 : ends.back()) + pieces.lengths_host[i]);
    }
  }
  PartialResult partial(int64_t stream) override { return search_->partial(stream); }
  Hypothesis finish(int64_t stream) override {
    std::vector<int64_t> ends = std::move(ends_[stream]);
    ends_.erase(stream);
    if (!ends.empty()) ends.pop_back();  // no piece follows the last one
    return without_words_at(ends, search_->finish(stream));
  }
  void close(int64_t stream) override {
    ends_.erase(stream);
    search_->close(stream);
  }

 private:
  Hypothesis without_words_at(const std::vector<int64_t>& borders, Hypothesis result) const {
    std::vector<bool> lost(result.tokens.size());
    for (const TokenWord& word : token_words(*model_->tokenizer, result.tokens)) {
      const int64_t begin = result.frames[word.first];
      const int64_t end = result.frames[word.first + word.count - 1] + 1;
      const auto meets = [&](int64_t border) { return begin <= border && border <= end; };
      if (std::ranges::any_of(borders, meets))
        std::fill_n(lost.begin() + static_cast<std::ptrdiff_t>(word.first), word.count, true);
    }
    const auto drop = [&](std::vector<int32_t>& of_tokens) {
      size_t token = 0;
      std::erase_if(of_tokens, [&](int32_t) { return lost[token++]; });
    };
    drop(result.tokens);
    drop(result.frames);
    drop(result.durations);
    return result;
  }

  std::unique_ptr<Streams> search_;
  std::shared_ptr<const AcousticModel> model_;
  std::map<int64_t, std::vector<int64_t>> ends_;  // end frames of each stream's pieces
};

class PlantingDecoder : public DecoderBase<PlantingDecoderOptions> {
 public:
  explicit PlantingDecoder(const Options& options)
      : DecoderBase(options),
        search_(make_decoder(options.search, {{"max_symbols", options.max_symbols}}, "")) {}

  Description describe() const override {
    Description description = search_->describe();
    description.name = "planting";
    return description;
  }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    model_ = model;
    search_->prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override {
    const Hypotheses found = search_->decode(batch);
    const bool tdt = model_->config.is_tdt();
    std::vector<std::vector<Hypothesis>> rows;
    planted_ = 0;
    int64_t row = 0;
    for (Hypothesis& honest : found.to_host()) {
      planted_ += plant(honest, batch, row++) ? 1 : 0;
      rows.push_back({std::move(honest)});
    }
    return Hypotheses::from_lists(rows, tdt, /*entries=*/1, found.nan.to(at::kCPU));
  }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    auto streams = search_->streams(limits);
    if (!is("seam")) return streams;
    return std::make_unique<LossyStreams>(std::move(streams), model_);
  }
  Counters counters() const override { return {{"planted", planted_}}; }

 private:
  bool is(const char* error) const { return options_.error == error; }

  /// Plants the error, and returns false if nothing was changed.
  bool plant(Hypothesis& result, const EncodedBatch& batch, int64_t row) {
    if (is("none") || is("seam") || result.tokens.empty()) return false;
    const int64_t frames = batch.lengths_host[static_cast<size_t>(row)];
    if (is("token")) return test::swap_a_token(result, random_, model_->config.vocabulary);
    if (is("frame")) return test::move_a_frame(result, random_, frames);
    if (is("duration")) return plant_duration(result);
    const Hypothesis before = result;
    result = is("fp8") ? test::greedy_with(model_, batch, row, options_.max_symbols, test::to_fp8)
                       : rounded_once(batch, row);
    return result.tokens != before.tokens || result.frames != before.frames ||
           result.durations != before.durations;
  }

  bool plant_duration(Hypothesis& result) {
    const auto& values = model_->config.durations;
    return !values.empty() && test::change_a_duration(result, random_, values.back());
  }

  /// Returns the result of a search in which rounding to fp8 changes the label of one decision.
  Hypothesis rounded_once(const EncodedBatch& batch, int64_t row) {
    std::vector<int64_t> places;
    int64_t place = 0;
    const Hypothesis honest =
        test::greedy_with(model_, batch, row, options_.max_symbols, [&](const at::Tensor& logits) {
          const auto label = [&](const at::Tensor& of) {
            return of.narrow(-1, 0, model_->config.vocabulary + 1).argmax(-1).item<int64_t>();
          };
          if (label(logits) != label(test::to_fp8(logits))) places.push_back(place);
          ++place;
          return logits;
        });
    if (places.empty()) return honest;
    const int64_t chosen = places[random_() % places.size()];
    place = 0;
    return test::greedy_with(model_, batch, row, options_.max_symbols,
                             [&](const at::Tensor& logits) {
                               return place++ == chosen ? test::to_fp8(logits) : logits;
                             });
  }

  std::unique_ptr<Decoder> search_;
  std::shared_ptr<const AcousticModel> model_;
  std::mt19937 random_{7};
  int64_t planted_ = 0;
};

const Register<PlantingDecoder> registered{"planting", "plants errors in a search's results"};

}  // namespace
}  // namespace rtfx
