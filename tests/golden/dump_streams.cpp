// rtfx_dump_streams MODEL OUT.pt REQUESTS.json FOLDER
// The program streams utterances in fp32 on the CPU, so that they can be compared with NeMo's.
// REQUESTS holds {name: {"clip": {"file", "samples"}, "context" or "buffer", ...}}, and FOLDER
// holds the files. For each name the program writes a pickled dict, which torch.load reads:
//   streamed [T', D]: encoder frames of EncoderStreams;
//   inner: the least number of these frames that NeMo's edges do not change;
//   enc [T'', D]: encoder frames by the loops of NeMo's scripts (tests/support/nemo_streams.h);
//   mel [M, F]: mel frames, if the features do not need the whole utterance;
//   tokens, ctc_tokens [N]: results of the heads for enc.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/serialize.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "models/streaming/encoder_streams.h"
#include "models/streaming/stream_features.h"
#include "tests/support/nemo_streams.h"

namespace {

using Json = nlohmann::json;
using Tensors = c10::Dict<std::string, at::Tensor>;
using rtfx::test::Samples;

Samples samples_of(const Json& clip, const std::filesystem::path& folder) {
  Samples samples = rtfx::read_audio(folder / clip["file"].get<std::string>()).samples;
  if (!clip["samples"].is_null()) samples.resize(clip["samples"].get<size_t>());
  return samples;
}

rtfx::StreamOptions options_of(const Json& request) {
  rtfx::StreamOptions options{.streams = 2};
  if (request.contains("context"))
    options.att_context_size = request["context"].get<std::vector<int64_t>>();
  if (request.contains("buffer")) {
    const Json& b = request["buffer"];
    options.buffer = rtfx::BufferSeconds{b["chunk"], b["left"], b["right"]};
  }
  return options;
}

/// Streams an utterance in pieces of 50 ms, beside the same utterance 0.3 s later, and returns its
/// encoder frames [T', D].
at::Tensor streamed(rtfx::EncoderStreams& streams, const Samples& audio) {
  const int64_t stream = streams.open(), other = streams.open();
  int ended = 0;
  std::vector<at::Tensor> frames;
  constexpr size_t kPiece = 800, kLater = 6;
  const auto send = [&](int64_t to, size_t piece) {
    const size_t begin = piece * kPiece;
    if (begin >= audio.size()) return;
    streams.push(to, std::span(audio).subspan(begin, std::min(kPiece, audio.size() - begin)));
    if (begin + kPiece >= audio.size()) streams.finish(to);
  };
  for (size_t piece = 0; ended < 2; ++piece) {
    send(stream, piece);
    if (piece >= kLater) send(other, piece - kLater);
    const rtfx::EncodedPieces step = streams.step();
    for (size_t row = 0; row < step.streams.size(); ++row) {
      if (step.streams[row] == stream) frames.push_back(step.row(row));
      if (!step.last[row]) continue;
      streams.close(step.streams[row]);
      ++ended;
    }
  }
  return at::cat(frames);
}

/// Returns encoder frames by NeMo's loop, and how many of them NeMo's treatment of the edges leaves
/// unchanged, at least.
std::pair<at::Tensor, int64_t> by_nemo(const std::shared_ptr<const rtfx::AcousticModel>& model,
                                       const rtfx::EncoderStreams& streams, const Samples& audio,
                                       const Json& request) {
  const auto samples = static_cast<int64_t>(audio.size());
  const int64_t frame = model->config.features.hop * model->config.encoder.factor();
  const int64_t chunk = streams.chunk_samples();
  if (request.contains("buffer")) {
    const int64_t left =
        std::llround(request["buffer"]["left"].get<double>() / model->config.frame_seconds());
    const rtfx::test::NemoBuffer buffer = {left * frame, chunk, streams.look_ahead_samples() - 1};
    int64_t done = 0;
    while (samples - done > chunk + buffer.right) done += chunk;
    return {rtfx::test::by_nemos_buffers(*model, audio, buffer, frame), done / frame};
  }
  const auto context = request["context"].get<std::vector<int64_t>>();
  const at::Tensor frames = rtfx::test::by_nemos_caches(model, audio, context);
  // Without look-ahead, NeMo's second step sees zeros before the utterance, so only the first frame
  // is unchanged. Otherwise NeMo's additional mel frame reaches the last chunk alone.
  const int64_t chunk_frames = chunk / frame;
  const int64_t inner = (frames.size(0) - 1) / chunk_frames * chunk_frames;
  return {frames, context.back() == 0 ? 1 : inner};
}

at::Tensor mel_frames(const std::shared_ptr<const rtfx::AcousticModel>& model,
                      const Samples& audio) {
  rtfx::StreamAudio stream;
  stream.push(audio);
  stream.finish();
  const rtfx::StreamFeatures features(model, 8);
  const int64_t frames = model->config.features.frames(stream.received());
  std::vector<at::Tensor> blocks;
  for (int64_t first = 0; first < frames; first += 8)
    blocks.push_back(features({{{&stream, first, frames}}}, 1)[0]);
  return at::cat(blocks, 1).narrow(1, 0, frames).contiguous();
}

at::Tensor decoded(const std::shared_ptr<const rtfx::AcousticModel>& model, const char* name,
                   const at::Tensor& frames) {
  const auto decoder = rtfx::make_decoder(name, Json::object(), "decoder", model->config);
  const int64_t count = frames.size(0);
  decoder->prepare(model, {.max_batch = 1, .max_frames = count});
  const auto result =
      decoder->decode({frames.unsqueeze(0), at::tensor({count}, at::kLong), {count}}).to_host();
  return at::tensor(result[0].tokens, at::kInt);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: rtfx_dump_streams MODEL OUT.pt REQUESTS.json FOLDER\n";
    return 2;
  }
  const c10::InferenceMode inference;
  const auto model =
      rtfx::AcousticModel::build(rtfx::load_checkpoint(argv[1]), at::kCPU, at::kFloat);
  const Json requests = Json::parse(std::ifstream(argv[3]));
  c10::Dict<std::string, Tensors> result;
  for (const auto& [name, request] : requests.items()) {
    const Samples audio = samples_of(request["clip"], argv[4]);
    const auto streams = rtfx::make_encoder_streams(model, options_of(request));
    Tensors tensors;
    const auto [frames, inner] = by_nemo(model, *streams, audio, request);
    tensors.insert("enc", frames);
    tensors.insert("streamed", streamed(*streams, audio));
    tensors.insert("inner", at::tensor({inner}, at::kLong));
    if (!request.contains("buffer")) tensors.insert("mel", mel_frames(model, audio));
    if (model->config.has_transducer)
      tensors.insert("tokens", decoded(model, "frame_looping", frames));
    if (model->config.has_ctc) tensors.insert("ctc_tokens", decoded(model, "ctc_greedy", frames));
    result.insert(name, tensors);
  }
  const std::vector<char> bytes = torch::pickle_save(result);
  std::ofstream(argv[2], std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
