// Tests the reasons for which results are not replayed.
#include "harness/run/replay_check.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "algorithms/decoder.h"

namespace rtfx {
namespace {

/// A greedy search of a plug-in, with any options.
struct ForeignGreedy : Decoder {
  explicit ForeignGreedy(nlohmann::json given) : given_(std::move(given)) {}
  Description describe() const override {
    return {"foreign_greedy", Head::transducer, Description::Exactness::exact, {"rnnt"}, "logit"};
  }
  nlohmann::json options() const override { return given_; }
  void prepare(std::shared_ptr<const AcousticModel>, const Limits&) override {}
  Hypotheses decode(const EncodedBatch&) override { return {}; }

 private:
  nlohmann::json given_;
};

/// Returns why the results of a plug-in with these options are not replayed.
std::string left_out_with(const char* options) {
  static const RegisterDecoder registered{{"foreign_greedy",
                                           "",
                                           {},
                                           [](const nlohmann::json& given, std::string_view) {
                                             return std::make_unique<ForeignGreedy>(given);
                                           },
                                           /*needs_gpu=*/false,
                                           /*is_foreign=*/true}};
  return ReplayCheck::left_out(*make_decoder("foreign_greedy", nlohmann::json::parse(options), ""),
                               {});
}

TEST(ReplayCheck, OptionsOfAPluginMayMeanSomethingElse) {
  const std::string reason =
      "the options `lm`, `boost` and `allowed` of a plug-in may follow another rule";
  EXPECT_EQ(left_out_with(R"({"lm": {"file": "words.arpa", "weight": 0.3}})"), reason);
  EXPECT_EQ(left_out_with(R"({"lm": {"path": "words.arpa", "alpha": 0.3}})"), reason);
  EXPECT_EQ(left_out_with(R"({"allowed": ["first"]})"), reason);
  EXPECT_EQ(left_out_with(R"({"boost": {"context_score": 1}})"), reason);
  for (const char* replayed : {"{}", R"({"lm": "words.arpa"})", R"({"allowed": []})",
                               R"({"boost": {"strength": 1}})", R"({"blank_penalty": "none"})"})
    EXPECT_EQ(left_out_with(replayed), "") << replayed;
}

TEST(ReplayCheck, BeamsWithPhrasesOrAllowedCharactersAreLeftOut) {
  const auto left_out = [](const char* name, const nlohmann::json& options) {
    return ReplayCheck::left_out(*make_decoder(name, options, ""), {});
  };
  const std::string reason =
      "scores of a beam are not recomputed with boosted phrases or allowed characters";
  EXPECT_EQ(left_out("ctc_beam", {{"allowed", {"latin"}}}), reason);
  EXPECT_EQ(left_out("alsd_pp", {{"boost", {{"phrases", {"abc"}}}}}), reason);
}

}  // namespace
}  // namespace rtfx
