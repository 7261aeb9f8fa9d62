#include "algorithms/shared/skipping/blank_skipping.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "algorithms/decoder_wrapper.h"
#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/score_dtype.h"

namespace rtfx {

namespace {

/// Decides which frames are kept.
class BlankRule {
 public:
  BlankRule(std::shared_ptr<const AcousticModel> model, double threshold, bool keeps_first)
      : model_(std::move(model)), least_(std::log(threshold)), keeps_first_(keeps_first) {}

  /// Returns whether blank is likelier than the threshold: frames [B, T', D] -> [B, T'] bool. It is
  /// false for a frame with NaN, so that the search finds the NaN.
  at::Tensor is_blank(const at::Tensor& frames) const {
    at::Tensor logits = model_->ctc_head->logits(frames);
    logits = logits.to(score_dtype(logits.scalar_type()));
    return logits.select(2, model_->config.vocabulary) - logits.logsumexp({2}) > least_;
  }

  /// Returns the frames to keep, [B, T'] bool. `blank` [B, T'] bool comes from is_blank(),
  /// `lengths` is [B], and `before` [B] bool says whether the frame before the first one was blank.
  at::Tensor kept(const at::Tensor& blank, const at::Tensor& lengths,
                  const at::Tensor& before) const {
    const int64_t columns = blank.size(1);
    at::Tensor dropped = blank;
    if (keeps_first_) {
      const at::Tensor previous =
          at::cat({before.unsqueeze(1), blank.narrow(1, 0, columns - 1)}, 1);
      dropped = blank.logical_and(previous);
    }
    const at::Tensor inside =
        at::arange(columns, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
    return inside.logical_and(dropped.logical_not());
  }

 private:
  std::shared_ptr<const AcousticModel> model_;
  double least_;  // ln of the threshold
  bool keeps_first_;
};

/// The kept frames of each row, moved to its front.
struct KeptFrames {
  at::Tensor frames;   // [B, T', D]
  at::Tensor lengths;  // [B] int64
  at::Tensor origins;  // [B, T'] int32: original place of each kept frame; 0 beyond the length

  /// Moves the frames that `kept` [B, T'] bool marks.
  KeptFrames(const at::Tensor& all, const at::Tensor& kept) {
    const int64_t rows = kept.size(0), columns = kept.size(1), width = all.size(2);
    const auto options = at::TensorOptions(at::kLong).device(kept.device());
    lengths = kept.sum(1);
    // Dropped frames are written to one more column, which is not read.
    const at::Tensor places = (kept.cumsum(1) - 1).masked_fill(kept.logical_not(), columns);
    const at::Tensor numbers = at::arange(columns, options).expand({rows, columns});
    const at::Tensor from =
        at::zeros({rows, columns + 1}, options).scatter(1, places, numbers).narrow(1, 0, columns);
    const at::Tensor first = (at::arange(rows, options) * columns).unsqueeze(1);
    frames = all.reshape({rows * columns, width})
                 .index_select(0, (from + first).flatten())
                 .view({rows, columns, width});
    origins = from.to(at::kInt);
  }
};

/// Replaces the frame numbers of a result by those of the whole utterance. It writes in place, so
/// results that are views of one block of memory stay so. The origins are [B, T'], on the device
/// and on the host.
void map_frames(Hypotheses& result, const at::Tensor& origins, const at::Tensor& host_origins) {
  const auto mapped = [&](const at::Tensor& frames) {
    if (!frames.defined()) return frames;
    const at::Tensor& table = frames.is_cpu() ? host_origins : origins;
    const at::Tensor index = frames.flatten(1).to(at::kLong).clamp(0, table.size(1) - 1);
    return table.gather(1, index).view(frames.sizes());
  };
  // The results may be views of the lists' first entries: both are read before either is written.
  const at::Tensor best = mapped(result.frames), list = mapped(result.nbest.frames);
  result.frames.copy_(best);
  if (list.defined()) result.nbest.frames.copy_(list);
  if (!result.words) return;
  auto words = std::make_shared<FoundWords>(*result.words);
  const auto map_words = [&](size_t row, std::vector<FoundWord>& found) {
    const at::Tensor of_row = host_origins[static_cast<int64_t>(row)].contiguous();
    const auto* table = of_row.const_data_ptr<int32_t>();
    const auto last = static_cast<int32_t>(of_row.size(0)) - 1;
    for (FoundWord& word : found) word.frame = table[std::clamp(word.frame, 0, last)];
  };
  for (size_t row = 0; row < words->rows.size(); ++row) map_words(row, words->rows[row]);
  for (size_t row = 0; row < words->lists.size(); ++row)
    for (auto& entry : words->lists[row]) map_words(row, entry);
  result.words = std::move(words);
}

/// Returns row `row` of `values` [B, n] int32 on the host.
std::span<const int32_t> row_of(const at::Tensor& values, size_t row) {
  const auto columns = static_cast<size_t>(values.size(1));
  return {values.const_data_ptr<int32_t>() + row * columns, columns};
}

/// Streams that drop frames. project() appends a column to the frames, which is 1 where blank is
/// certain.
class SkippingStreams : public Streams {
 public:
  SkippingStreams(std::unique_ptr<Streams> streams, std::shared_ptr<const BlankRule> rule)
      : streams_(std::move(streams)), rule_(std::move(rule)) {}

  at::Tensor project(const at::Tensor& frames) override {
    const at::Tensor projected = streams_->project(frames);
    const at::Tensor blank = rule_->is_blank(frames).unsqueeze(2);
    return at::cat({projected, blank.to(projected.options())}, 2);
  }
  int64_t open() override { return open_.add({streams_->open()}); }
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override {
    streams_->set_bias(open_.at(stream).number, std::move(bias));
  }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override;
  PartialResult partial(int64_t stream) override {
    const Stream& open = open_.at(stream);
    PartialResult result = streams_->partial(open.number);
    map_hypothesis(open, result.best);
    return result;
  }
  Hypothesis finish(int64_t stream) override {
    Hypothesis result = streams_->finish(open_.at(stream).number);
    map_hypothesis(open_.remove(stream), result);
    return result;
  }
  void close(int64_t stream) override { streams_->close(open_.remove(stream).number); }

 private:
  struct Stream {
    int64_t number;                     // number in the search
    std::vector<int32_t> origins = {};  // original places of the kept frames
    int64_t frames = 0;                 // frames that have arrived
    bool ends_blank = false;            // whether the last frame was blank
  };

  static void require_pieces(std::span<const int64_t> streams, const EncodedBatch& pieces);

  static void map_hypothesis(const Stream& open, Hypothesis& hypothesis) {
    for (int32_t& frame : hypothesis.frames) frame = open.origins[static_cast<size_t>(frame)];
    if (hypothesis.words && !open.origins.empty()) {
      const auto last = static_cast<int32_t>(std::ssize(open.origins)) - 1;
      for (FoundWord& word : *hypothesis.words)
        word.frame = open.origins[static_cast<size_t>(std::clamp(word.frame, 0, last))];
    }
    for (Hypothesis& entry : hypothesis.nbest) map_hypothesis(open, entry);
  }

  std::unique_ptr<Streams> streams_;
  std::shared_ptr<const BlankRule> rule_;
  OpenStreams<Stream> open_;
  HostReads reads_;
};

void SkippingStreams::require_pieces(std::span<const int64_t> streams, const EncodedBatch& pieces) {
  const at::Tensor& frames = pieces.frames;
  const auto rows = static_cast<int64_t>(streams.size());
  const bool fits = frames.defined() && frames.dim() == 3 && frames.size(0) == rows &&
                    frames.size(2) > 0 && std::ssize(pieces.lengths_host) == rows;
  const auto is_inside = [&](int64_t length) { return length >= 0 && length <= frames.size(1); };
  if (!fits || !std::ranges::all_of(pieces.lengths_host, is_inside)) {
    throw UserError("the pieces of streams", "are not a row of frames and a length for each stream",
                    "pass what project() returns, and lengths within the frames");
  }
}

void SkippingStreams::push(std::span<const int64_t> streams, const EncodedBatch& pieces) {
  require_pieces(streams, pieces);
  const std::vector<Stream*> open = open_.find_all(streams);
  std::vector<int64_t> numbers;
  for (const Stream* stream : open) numbers.push_back(stream->number);
  const int64_t width = pieces.frames.size(2) - 1;
  const at::Tensor projected = pieces.frames.narrow(2, 0, width);
  if (pieces.longest() == 0)
    return streams_->push(numbers, {projected, {}, pieces.lengths_host, pieces.biases});

  const at::Device device = projected.device();
  const c10::DeviceGuard guard(device);
  const at::Tensor lengths = at::tensor(pieces.lengths_host, at::kLong).to(device);
  at::Tensor before = at::zeros({std::ssize(open)}, at::kBool);
  for (size_t row = 0; row < open.size(); ++row)
    before.mutable_data_ptr<bool>()[row] = open[row]->ends_blank;
  const at::Tensor blank = pieces.frames.select(2, width) > 0.5;
  const KeptFrames kept(projected, rule_->kept(blank, lengths, before.to(device)));
  const at::Tensor last = blank.gather(1, (lengths - 1).clamp_min(0).unsqueeze(1));
  const at::Tensor host = reads_.values(
      at::cat({kept.origins, kept.lengths.unsqueeze(1).to(at::kInt), last.to(at::kInt)}, 1));

  const auto columns = static_cast<size_t>(kept.origins.size(1));
  std::vector<int64_t> kept_lengths;
  for (size_t row = 0; row < open.size(); ++row) kept_lengths.push_back(row_of(host, row)[columns]);
  streams_->push(numbers, {kept.frames, {}, kept_lengths, pieces.biases});
  for (size_t row = 0; row < open.size(); ++row) {
    if (pieces.lengths_host[row] == 0) continue;
    const std::span<const int32_t> numbers_of_row = row_of(host, row);
    Stream& stream = *open[row];
    for (const int32_t frame : numbers_of_row.first(static_cast<size_t>(kept_lengths[row])))
      stream.origins.push_back(static_cast<int32_t>(stream.frames) + frame);
    stream.frames += pieces.lengths_host[row];
    stream.ends_blank = numbers_of_row[columns + 1] != 0;
  }
}

class SkippingDecoder : public DecoderWrapper {
 public:
  SkippingDecoder(std::unique_ptr<Decoder> decoder, double threshold)
      : DecoderWrapper(std::move(decoder)), threshold_(threshold) {}

  Description describe() const override {
    Description description = DecoderWrapper::describe();
    description.exactness = Description::Exactness::approximate;
    description.has_own_rule = true;
    // The durations of other transducers count frames of the whole utterance.
    if (description.head == Head::transducer) description.model_kinds = {"rnnt"};
    return description;
  }

  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    const Description description = describe();
    if (!model->ctc_head) {
      throw UserError(description.name,
                      "\"skip_blank\" drops frames by the CTC head, and the model has none",
                      "leave out \"skip_blank\", or choose a hybrid model, with a CTC head too");
    }
    if (description.head == Head::transducer &&
        (model->config.is_tdt() || model->config.is_multiblank())) {
      throw UserError(description.name,
                      "\"skip_blank\" drops frames, which the durations of this model count: words "
                      "would be lost",
                      "leave out \"skip_blank\": the durations skip frames, too");
    }
    rule_ = std::make_shared<const BlankRule>(model, threshold_, description.head == Head::ctc);
    DecoderWrapper::prepare(std::move(model), limits);
  }

  Hypotheses decode(const EncodedBatch& batch) override {
    reads_.reset();
    frames_ = std::accumulate(batch.lengths_host.begin(), batch.lengths_host.end(), int64_t{0});
    skipped_ = 0;
    if (frames_ == 0) return DecoderWrapper::decode(batch);
    const at::Tensor none_before = at::zeros_like(batch.lengths, at::kBool);
    const KeptFrames kept(batch.frames,
                          rule_->kept(rule_->is_blank(batch.frames), batch.lengths, none_before));
    const at::Tensor host =
        reads_.values(at::cat({kept.origins, kept.lengths.unsqueeze(1).to(at::kInt)}, 1));
    EncodedBatch shorter{kept.frames, kept.lengths, {}, batch.biases};
    for (size_t row = 0; row < batch.lengths_host.size(); ++row)
      shorter.lengths_host.push_back(row_of(host, row).back());
    skipped_ = frames_ - std::accumulate(shorter.lengths_host.begin(), shorter.lengths_host.end(),
                                         int64_t{0});
    Hypotheses result = DecoderWrapper::decode(shorter);
    map_frames(result, kept.origins, host.narrow(1, 0, kept.origins.size(1)));
    return result;
  }

  Counters counters() const override {
    Counters counters = DecoderWrapper::counters();
    counters["frames"] = frames_;
    counters["frames_skipped"] = skipped_;
    counters["host_reads"] += reads_.count();
    return counters;
  }

  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    auto streams = DecoderWrapper::streams(limits);
    if (streams == nullptr) return nullptr;
    return std::make_unique<SkippingStreams>(std::move(streams), rule_);
  }

 private:
  double threshold_;
  std::shared_ptr<const BlankRule> rule_;
  HostReads reads_;
  int64_t frames_ = 0, skipped_ = 0;  // of the last batch
};

}  // namespace

std::unique_ptr<Decoder> with_blank_skipping(std::unique_ptr<Decoder> decoder, double threshold) {
  return std::make_unique<SkippingDecoder>(std::move(decoder), threshold);
}

}  // namespace rtfx
