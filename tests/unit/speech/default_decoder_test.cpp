#include "speech/pipeline/default_decoder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

using nlohmann::json;

class DefaultDecoder : public testing::Test {
 protected:
  std::string first_of(const std::vector<DecoderChoice>& choices) {
    return first_prepared(choices, "here", model_->config, prepare_)->describe().name;
  }

  const c10::InferenceMode guard_;
  const std::shared_ptr<const AcousticModel> model_ = test::random_model(test::small_config(), 7);
  const PrepareDecoder prepare_ = [this](Decoder& decoder) { decoder.prepare(model_, {}); };
};

TEST_F(DefaultDecoder, IsTheFirstThatServes) {
  const json none = json::object();
  EXPECT_EQ(first_of({{"frame_looping", none}, {"label_looping", none}}), "frame_looping");
  // fused_looping cannot be prepared without a GPU, and frame_looping has no option "window".
  EXPECT_EQ(first_of({{"fused_looping", none}, {"label_looping", none}}), "label_looping");
  EXPECT_EQ(first_of({{"frame_looping", {{"window", 8}}}, {"label_looping", {{"window", 8}}}}),
            "label_looping");
}

TEST_F(DefaultDecoder, SaysWhatTheLastOneLacks) {
  try {
    first_of({{"fused_looping", {{"wnidow", 8}}}, {"label_looping", {{"wnidow", 8}}}});
    FAIL() << "an unknown option was taken";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("wnidow"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("here"), std::string::npos) << e.what();
  }
}

TEST_F(DefaultDecoder, OfAModelOnACpu) {
  const auto greedy = [&](const AcousticModel& model) {
    return default_greedy(model, json::object(), "here", prepare_)->describe().name;
  };
  EXPECT_EQ(greedy(*model_), "label_looping");
  AcousticModel ctc;
  ctc.config = model_->config;
  ctc.config.has_transducer = false;
  EXPECT_EQ(greedy(ctc), "ctc_greedy");
}

}  // namespace
}  // namespace rtfx
