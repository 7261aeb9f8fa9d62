// Tests the replay of beams: it accepts the scores of returned texts and finds impossible ones.
#include "tests/support/beam_cases.h"
#include "tests/support/replay_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

struct BeamArm {
  std::string name;
  nlohmann::json options;
  bool ctc = false;
};

std::vector<BeamArm> beams() {
  return {{"alsd", {{"beam_size", 4}, {"nbest", 4}, {"max_target_ratio", 10}}},
          {"alsd_pp", {{"beam_size", 4}, {"nbest", 4}}},
          {"alsd_pp", {{"beam_size", 4}, {"nbest", 4}, {"max_symbols", 1}, {"temperature", 0.7}}},
          {"aes", {{"beam_size", 4}, {"nbest", 4}}},
          {"aes_pp", {{"beam_size", 4}, {"nbest", 4}}},
          {"modified_beam_search", {{"beam_size", 4}, {"nbest", 4}}},
          {"ctc_beam", {{"beam_size", 4}, {"nbest", 4}}, true},
          {"ctc_beam", {{"beam_size", 4}, {"nbest", 4}, {"merge", "max"}}, true}};
}

TEST(BeamReplay, AcceptsAllBeamsOnTables) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 12; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 5, {0, 1, 4, 9});
    for (const BeamArm& arm : beams()) {
      if (arm.ctc && trial % 2 == 0) continue;
      const auto model = arm.ctc ? identity_model(8) : build(c.model);
      const auto batch = batch_of(c.rows, c.model.columns());
      const auto decoder = make_decoder(arm.name, arm.options, "");
      decoder->prepare(model, {});
      const auto found = decoder->decode(batch).to_host();
      for (const Replayed& r : replay(model, *decoder, batch, found))
        EXPECT_TRUE(r.within()) << arm.name << " " << arm.options << " " << trial << ": "
                                << text(r);
      // The replay finds scores that are too high, and also too low ones where it knows the
      // alignment.
      for (const float by : {1000.0F, -1000.0F}) {
        if (by < 0 && (arm.ctc || trial % 2 == 0)) continue;
        auto wrong = found;
        for (Hypothesis& h : wrong)
          for (Hypothesis& entry : h.nbest) entry.score += by;
        for (const Replayed& r : replay(model, *decoder, batch, wrong)) {
          // The texts of such a row may all be unfinished, so that their scores are not judged.
          if (arm.name == "alsd" && r.decisions == 0) continue;
          EXPECT_FALSE(r.within()) << arm.name << " " << trial << ": " << text(r);
        }
      }
    }
    if (HasFailure()) return;
  }
}

TEST(BeamReplay, AcceptsALanguageModelInAllItsForms) {
  std::mt19937 random(6);
  const SmallLm lm(8);
  for (int trial = 0; trial < 8; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 5, {1, 4, 9});
    const auto batch = batch_of(c.rows, c.model.columns());
    for (const BeamArm& arm : beams()) {
      if (arm.name == "alsd" || (arm.ctc && trial % 2 == 0)) continue;
      for (const char* blank : {"lm_weighted_full", "no_score"}) {
        for (const char* pruning : {"late", "early"}) {
          auto options = arm.options;
          options["lm"] = {{"path", lm.path()}, {"alpha", 0.4}};
          if (arm.name != "aes" && !arm.ctc) {
            options["lm"]["blank_scoring"] = blank;
            options["lm"]["pruning"] = pruning;
          }
          const auto model = arm.ctc ? identity_model(8) : build(c.model);
          const auto decoder = make_decoder(arm.name, options, "");
          decoder->prepare(model, {});
          const auto found = decoder->decode(batch).to_host();
          for (const Replayed& r : replay(model, *decoder, batch, found))
            EXPECT_TRUE(r.within())
                << arm.name << " " << options << " " << trial << ": " << text(r);
        }
      }
    }
    if (HasFailure()) return;
  }
}

/// With alpha = 0, the probabilities of a language model have no effect, even those of 0. A beta
/// keeps the model in the search, which leaves it out if both are 0.
TEST(BeamReplay, AcceptsALanguageModelOfWeightZeroThatRulesOutTokens) {
  std::mt19937 random(8);
  const SmallLm lm(8, /*has_unk=*/false);
  int64_t ruled_out = 0;
  for (int trial = 0; trial < 8; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 5, {1, 4, 9});
    const auto batch = batch_of(c.rows, c.model.columns());
    for (const BeamArm& arm : beams()) {
      if (arm.name == "alsd" || (arm.ctc && trial % 2 == 0)) continue;
      auto options = arm.options;
      options["lm"] = {{"path", lm.path()}, {"alpha", 0}};
      if (arm.name != "aes") options["lm"]["beta"] = 0.5;
      const auto model = arm.ctc ? identity_model(8) : build(c.model);
      const auto decoder = make_decoder(arm.name, options, "");
      decoder->prepare(model, {});
      const auto found = decoder->decode(batch).to_host();
      for (const Hypothesis& h : found)
        ruled_out += std::ranges::count_if(h.tokens, [](int32_t token) { return token > 1; });
      for (const Replayed& r : replay(model, *decoder, batch, found))
        EXPECT_TRUE(r.within()) << arm.name << " " << options << " " << trial << ": " << text(r);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(ruled_out, 0);
}

/// Each token is far better than blank, so that no text of alsd ends within its limit.
TEST(BeamReplay, JudgesNoUnfinishedTexts) {
  std::mt19937 random(7);
  for (const bool tdt : {false, true}) {
    BeamCase c = random_beam_case(random, tdt, 8, 5, {4});
    for (auto& frame : c.rows[0]) {
      frame[8] = -40;
      if (tdt) frame[9] = 40;  // the duration 0
    }
    const auto model = build(c.model);
    const auto batch = batch_of(c.rows, c.model.columns());
    const auto decoder = make_decoder("alsd", {{"beam_size", 4}, {"nbest", 4}}, "");
    decoder->prepare(model, {});
    const auto found = decoder->decode(batch).to_host();
    EXPECT_GT(found[0].tokens.size(), 4);
    EXPECT_EQ(decoder->counters().at("unfinished"), 1);
    const Replayed replayed = replay(model, *decoder, batch, found)[0];
    EXPECT_TRUE(replayed.within()) << text(replayed);
    EXPECT_EQ(replayed.decisions, 0);
  }
}

TEST(BeamReplay, AcceptsABeamOfFullWidth) {
  at::manual_seed(4);
  const auto model = full_width_model(false, at::kCPU, at::kBFloat16);
  std::mt19937 random(3);
  const EncodedBatch batch = random_batch(random, 3, 12, 512, at::kCPU, at::kBFloat16);
  const auto decoder =
      make_decoder("alsd_pp", {{"beam_size", 4}, {"nbest", 2}, {"max_symbols", 2}}, "");
  decoder->prepare(model, {});
  const auto found = decoder->decode(batch).to_host();
  for (const Replayed& r : replay(model, *decoder, batch, found))
    EXPECT_TRUE(r.within()) << text(r);
}

}  // namespace
}  // namespace rtfx
