// Long audio to transcribe, and a search that gets stuck in it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "algorithms/decoder.h"
#include "datasets/dataset.h"
#include "speech/long_audio/long_audio.h"

namespace rtfx::test {

inline std::vector<Utterance> quickstart_utterances() {
  const std::filesystem::path manifest = "datasets/quickstart/manifest.jsonl";
  std::ostringstream contents;
  contents << std::ifstream(manifest).rdbuf();
  return parse_manifest(manifest, contents.str());
}

/// A decoder that says nothing from its third second on, until it is begun anew.
class Stuck : public Decoder {
 public:
  explicit Stuck(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}
  Description describe() const override { return decoder_->describe(); }
  nlohmann::json options() const override { return decoder_->options(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    decoder_->prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override { return decoder_->decode(batch); }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  std::unique_ptr<Decoder> decoder_;
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
    while (n < h.frames.size() && h.frames[n] < 37) ++n;
    h.tokens.resize(n);
    h.frames.resize(n);
  }
  std::unique_ptr<Streams> streams_;
};

inline std::unique_ptr<Streams> Stuck::streams(const StreamLimits& limits) {
  return std::make_unique<StuckStreams>(decoder_->streams(limits));
}

}  // namespace rtfx::test
