// A plugin for the tests of the proof by replay: a greedy search's results with one error planted
// in each row, or those of a search whose logits were rounded to fp8.
#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
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
               {"none", "token", "frame", "duration", "fp8", "fp8_once"}),
        option("search", &O::search, "whose results", {"label_looping", "fused_looping"}),
        option("max_symbols", &O::max_symbols, "tokens at one frame", 1),
    }};
    return table;
  }
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
  Counters counters() const override { return {{"planted", planted_}}; }

 private:
  bool is(const char* error) const { return options_.error == error; }

  /// False where nothing was changed.
  bool plant(Hypothesis& result, const EncodedBatch& batch, int64_t row) {
    if (is("none") || result.tokens.empty()) return false;
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

  /// The result of a search that rounds the logits of one decision to fp8 and so changes it.
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
