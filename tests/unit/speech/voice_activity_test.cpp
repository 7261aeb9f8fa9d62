// Tests silences by the probabilities of a detector, and files that are no detectors.
#include "speech/streams/voice_activity.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/energy_detector.h"

namespace rtfx {
namespace {

constexpr int64_t kNever = Silence().until;

TEST(Silences, BeginBehindSpeechAndEndWithIt) {
  Silences silences(100);
  for (const float probability : {0.1F, 0.2F}) silences.add(probability);
  EXPECT_TRUE(silences.all().empty()) << "nobody has spoken";
  for (const float probability : {0.9F, 0.3F, 0.1F}) silences.add(probability);
  EXPECT_EQ(silences.all(), std::vector<Silence>({{300, kNever}}));
  for (const float probability : {0.49F, 0.5F, 0.36F, 0.34F}) silences.add(probability);
  EXPECT_EQ(silences.all(), std::vector<Silence>({{300, 700}, {800, kNever}}))
      << "between both thresholds it stays as it was";
  silences.add(0.9F);
  silences.add(0.9F);
  EXPECT_EQ(silences.all().back(), (Silence{800, 1000}));
  silences.forget(701);
  EXPECT_EQ(silences.all(), std::vector<Silence>({{800, 1000}}));
}

/// Returns half a second of noise, a second of silence, and noise again.
std::vector<float> samples() {
  std::vector<float> all(32000);
  for (size_t i = 0; i < all.size(); ++i)
    if (i < 8000 || i >= 24000) all[i] = i % 2 == 0 ? 0.5F : -0.5F;
  return all;
}

TEST(VoiceActivity, DoesNotDependOnPiecesOrOtherStreams) {
  const std::vector<float> all = samples();
  const auto detector = test::energy_detector();
  for (const size_t piece : {size_t{1}, size_t{333}, size_t{512}, all.size()}) {
    VoiceActivity stream(detector), other(detector);
    for (size_t at = 0; at < all.size(); at += piece) {
      stream.push(std::span(all).subspan(at, std::min(piece, all.size() - at)));
      if (piece == 333) other.push(std::vector<float>(100));
    }
    // 8000 and 24000 lie within the windows [7680, 8192) and [23552, 24064).
    EXPECT_EQ(stream.silences(), std::vector<Silence>({{8192, 24064}})) << piece;
    EXPECT_TRUE(other.silences().empty());
  }
}

/// The module hears speech in the third window that it counts, and each stream counts its own.
TEST(VoiceActivity, EachStreamHasItsOwnState) {
  const auto file = test::save_detector("counts",
                                        "def forward(self, x, sr: int):\n"
                                        "  self.windows = self.windows + 1\n"
                                        "  return torch.full([1, 1], float(self.windows == 3))\n");
  const auto detector = std::make_shared<const VoiceDetector>(file, 8000, "--vad");
  VoiceActivity first(detector), second(detector);
  const auto push = [](VoiceActivity& stream, int windows) {
    for (int i = 0; i < windows; ++i) stream.push(std::vector<float>(256));
  };
  push(first, 2);
  push(second, 3);
  push(first, 2);
  EXPECT_EQ(first.silences(), std::vector<Silence>({{768, kNever}}));
  EXPECT_TRUE(second.silences().empty());
  push(second, 1);
  EXPECT_EQ(second.silences(), std::vector<Silence>({{768, kNever}}));
}

void expect_refused(const std::filesystem::path& file, const std::string& problem,
                    int64_t rate = 16000) {
  try {
    const VoiceDetector detector(file, rate, "--vad");
    FAIL() << file;
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("--vad: ")) << text;
    EXPECT_NE(text.find(problem), text.npos) << text;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
    if (rate == 16000) {
      EXPECT_NE(text.find("pip install silero-vad"), text.npos) << text;
    }
  }
}

TEST(VoiceDetector, RefusesWhatIsNone) {
  using test::kEnergy, test::save_detector;
  expect_refused("none.jit", "no such file");
  expect_refused("models/quickstart", "no such file");
  expect_refused("models/quickstart/README.md", "is no TorchScript module");
  expect_refused("models/quickstart/quickstart-rnnt.nemo", "is no TorchScript module");
  expect_refused(save_detector("stateless", kEnergy, ""), "has no method reset_states()");
  expect_refused(save_detector("empty", ""), "cannot be called with a window [1, 512]");
  expect_refused(save_detector("one", "def forward(self, x):\n  return x.mean()\n"),
                 "cannot be called with a window [1, 512]");
  expect_refused(save_detector("other", "def forward(self, x, sr: str):\n  return x.mean()\n"),
                 "cannot be called");
  expect_refused(save_detector("long",
                               "def forward(self, x, sr: int):\n"
                               "  return x.reshape(2, 1024).mean()\n"),
                 "cannot be called");
  expect_refused(save_detector("all", "def forward(self, x, sr: int):\n  return x\n"),
                 "returns something else than one probability");
  expect_refused(save_detector("text", "def forward(self, x, sr: int):\n  return 'yes'\n"),
                 "returns something else than one probability");
  expect_refused(save_detector("nan", "def forward(self, x, sr: int):\n  return x.mean() / 0.0\n"),
                 "returns NaN as a probability");
  expect_refused(save_detector("logit", "def forward(self, x, sr: int):\n  return x.mean() - 4\n"),
                 "returns -4 as a probability");
  expect_refused(save_detector("energy", kEnergy), "hears 8 or 16 kHz, the model 22050 Hz", 22050);
}

/// This detector passes the trial on silence, and later returns a probability above 1.
TEST(VoiceDetector, RefusesABadProbabilityLater) {
  const auto file =
      test::save_detector("loud", "def forward(self, x, sr: int):\n  return x.abs().max()\n");
  VoiceActivity stream(std::make_shared<const VoiceDetector>(file, 16000, "--vad"));
  stream.push(std::vector<float>(512, 0.5F));
  EXPECT_THROW(stream.push(std::vector<float>(512, 1.5F)), UserError);
}

}  // namespace
}  // namespace rtfx
