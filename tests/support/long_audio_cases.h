// Long audio to transcribe, and a search that gets stuck in it.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "algorithms/decoder.h"
#include "datasets/manifest.h"
#include "speech/long_audio/long_audio.h"

namespace rtfx::test {

inline std::vector<Utterance> quickstart_utterances() {
  const std::filesystem::path manifest = "datasets/quickstart/manifest.jsonl";
  std::ostringstream contents;
  contents << std::ifstream(manifest).rdbuf();
  return parse_manifest(manifest, contents.str());
}

constexpr int32_t kStuckFrom = 37;  // frames

/// A decoder that emits no token from frame kStuckFrom (about 3 s) on, until a new search begins.
/// Its decode() is stuck only on utterances of at least `window` frames.
class Stuck : public Decoder {
 public:
  explicit Stuck(std::unique_ptr<Decoder> decoder, int64_t window = 1 << 20)
      : decoder_(std::move(decoder)), window_(window) {}
  Description describe() const override { return decoder_->describe(); }
  nlohmann::json options() const override { return decoder_->options(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    decoder_->prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override {
    Hypotheses all = decoder_->decode(batch);
    const at::Tensor within = at::arange(all.frames.size(1), all.frames.options()).unsqueeze(0) <
                              all.lengths.unsqueeze(1);
    const at::Tensor kept =
        at::logical_and(within, all.frames < kStuckFrom).sum(1).to(all.lengths.scalar_type());
    for (int64_t row = 0; row < all.lengths.size(0); ++row) {
      if (batch.lengths_host[static_cast<size_t>(row)] >= window_)
        all.lengths[row].copy_(kept[row]);
    }
    return all;
  }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  std::unique_ptr<Decoder> decoder_;
  int64_t window_;
};

class StuckStreams : public Streams {
 public:
  explicit StuckStreams(std::unique_ptr<Streams> streams) : streams_(std::move(streams)) {}
  at::Tensor project(const at::Tensor& frames) override { return streams_->project(frames); }
  int64_t open() override { return streams_->open(); }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
    streams_->push(streams, pieces);
  }
  PartialResult partial(int64_t stream) override {
    PartialResult result = streams_->partial(stream);
    stop(result.best);
    result.stable = std::min(result.stable, static_cast<int64_t>(result.best.tokens.size()));
    return result;
  }
  Hypothesis finish(int64_t stream) override {
    Hypothesis result = streams_->finish(stream);
    stop(result);
    return result;
  }
  void close(int64_t stream) override { streams_->close(stream); }

 private:
  static void stop(Hypothesis& h) {
    size_t n = 0;
    while (n < h.frames.size() && h.frames[n] < kStuckFrom) ++n;
    h.tokens.resize(n);
    h.frames.resize(n);
  }
  std::unique_ptr<Streams> streams_;
};

inline std::unique_ptr<Streams> Stuck::streams(const StreamLimits& limits) {
  return std::make_unique<StuckStreams>(decoder_->streams(limits));
}

}  // namespace rtfx::test
