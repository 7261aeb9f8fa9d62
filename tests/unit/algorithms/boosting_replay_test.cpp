// Tests the replay of greedy searches with boosted phrases and allowed characters.
#include <gtest/gtest.h>

#include "tests/support/boost_cases.h"
#include "tests/support/replay_cases.h"

namespace rtfx {
namespace {

using namespace test;

/// A small model with letters, and a batch in which two of the six rows have biases of their own.
struct ReplayCase {
  std::shared_ptr<const AcousticModel> model;
  std::unique_ptr<Decoder> decoder;
  EncodedBatch batch;

  ReplayCase(const std::string& name, bool tdt, const nlohmann::json& options, uint64_t seed) {
    ModelConfig config = small_config();
    if (!tdt) config.durations = {};
    model = with_letters(random_model(config, seed));
    decoder = make_decoder(name, options, "");
    decoder->prepare(model, {});
    std::mt19937 random(static_cast<unsigned>(seed));
    at::manual_seed(static_cast<int64_t>(seed));
    batch = random_batch(random, 6, 30, 16);
    const auto own = decoder->compile_bias({});
    const auto other = decoder->compile_bias({{{"ab", 3, ""}}, {{"U+0061-U+0068"}}, ""});
    batch.biases = {own, other, own, other, own, own};
  }
};

nlohmann::json boosted(bool with_mask) {
  nlohmann::json options = {{"boost", {{"phrases", {"abc", "bd", "qr", "t", "ee"}}, {"scale", 2}}}};
  if (with_mask) options["allowed"] = {"U+0061-U+0072"};
  return options;
}

TEST(BoostingReplay, AcceptsGreedySearches) {
  int64_t decisions = 0;
  for (const char* name : {"label_looping", "frame_looping", "ctc_greedy"}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      nlohmann::json options = boosted(seed % 2 == 0);
      if (seed % 3 == 0 && std::string(name) != "ctc_greedy") options["score_kind"] = "logprob";
      const ReplayCase c(name, seed > 3, options, seed);
      const auto found = c.decoder->decode(c.batch).to_host();
      for (const Replayed& r : replay(c.model, *c.decoder, c.batch, found)) {
        EXPECT_TRUE(r.within()) << name << options << ": " << text(r);
        decisions += r.decisions;
      }
    }
  }
  EXPECT_GT(decisions, 1000);
}

/// Replay with phrases refuses the result of a search without them, or with another set for a row.
TEST(BoostingReplay, RefusesWhatOtherPhrasesGive) {
  int different = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const ReplayCase c("label_looping", seed > 3, boosted(seed % 2 == 0), seed);
    const auto right = c.decoder->decode(c.batch).to_host();
    EncodedBatch turned = c.batch;
    std::ranges::rotate(turned.biases, turned.biases.begin() + 1);
    const auto wrong = c.decoder->decode(turned).to_host();
    const auto replayed = replay(c.model, *c.decoder, c.batch, wrong);
    for (size_t b = 0; b < right.size(); ++b) {
      if (wrong[b].tokens == right[b].tokens) continue;
      ++different;
      EXPECT_FALSE(replayed[b].within());
    }
  }
  EXPECT_GT(different, 6);
}

TEST(BoostingReplay, BeamsAreLeftOut) {
  const auto rules = [](const char* name, const nlohmann::json& options) {
    const auto decoder = make_decoder(name, options, "");
    return ReplayRules::from(decoder->describe(), decoder->options()).has_value();
  };
  EXPECT_TRUE(rules("alsd_pp", {}));
  EXPECT_FALSE(rules("alsd_pp", boosted(false)));
  EXPECT_FALSE(rules("ctc_beam", {{"allowed", {"latin"}}}));
  EXPECT_TRUE(rules("label_looping", boosted(true)));
}

}  // namespace
}  // namespace rtfx
