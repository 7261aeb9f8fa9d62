// Tests a server of samples whose streams bring more utterances than it can decode.
#include "harness/stream/stream_server.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <vector>

#include "algorithms/decoder.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/stages.h"
#include "tests/support/stream_runs.h"

namespace rtfx {
namespace {

/// Each request is a whole utterance, which takes many steps of the encoder.
TEST(SpeechServer, UtterancesWaitUntilTheEncoderHasRoom) {
  const auto model = AcousticModel::build(
      load_checkpoint("tests/data/checkpoints/tiny_streaming.nemo"), at::kCPU, at::kFloat);
  const std::unique_ptr<Decoder> decoder = make_decoder("label_looping", {}, "");
  decoder->prepare(model, {});
  constexpr int64_t kStreams = 4, kRows = 2, kSamples = 16000;
  StreamOptions options;
  options.streams = kStreams + kRows;
  options.rows = kRows;
  SpeechStreams speech(model, *decoder, options);

  std::vector<std::vector<float>> samples;
  for (uint64_t seed = 0; seed < 5; ++seed) samples.push_back(test::noise(kSamples, seed));
  const Clips audio(samples.begin(), samples.end());
  const std::vector<Hypothesis> whole = in_one_piece(speech, audio, kStreams);

  SpeechServer server(speech, audio, kStreams, kSamples, /*partial=*/false);
  std::vector<int64_t> served(kStreams);
  size_t pending = 0;
  const auto work = [&](const std::vector<Request>& requests) {
    const Work done = server.work(requests);
    pending = done.pending;
    for (const Served& one : done.served) {
      EXPECT_TRUE(one.last);
      // Requests of a stream are served in their order.
      EXPECT_EQ(one.request.arrival,
                static_cast<double>(served[static_cast<size_t>(one.request.stream)]++));
    }
  };
  constexpr int64_t kRounds = 4;
  for (int64_t round = 0; round < kRounds; ++round) {
    const auto arrival = static_cast<double>(round);
    work({{arrival, 0}, {arrival, 1}});
    work({{arrival, 2}, {arrival, 3}});
  }
  EXPECT_GT(pending, static_cast<size_t>(options.streams)) << "no overload";
  while (pending > 0) work({});
  EXPECT_EQ(served, std::vector<int64_t>(kStreams, kRounds));
  ASSERT_EQ(server.finished().size(), static_cast<size_t>(kStreams * kRounds));
  for (const FinishedUtterance& one : server.finished())
    EXPECT_EQ(one.result.tokens, whole[one.utterance].tokens);

  const auto interrupted = [&] {
    const InterruptWatch watch;
    std::raise(SIGINT);
    try {
      in_one_piece(speech, audio, kStreams);
    } catch (const Interrupted&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  };
  EXPECT_EXIT(interrupted(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rtfx
