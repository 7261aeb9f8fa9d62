// Tests the registry, the option tables, undeclared synchronisation and the growth of buffers.
#include <gtest/gtest.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "tests/support/table_model.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

TEST(Registry, UnknownNamesAndOptionsSayWhatIsNear) {
  const std::string decoder = test::user_error([] { find_decoder("label_loping", "/decoders/1"); });
  EXPECT_NE(decoder.find("/decoders/1"), std::string::npos);
  EXPECT_NE(decoder.find("did you mean 'label_looping'"), std::string::npos);
  const std::string option = test::user_error([] {
    make_decoder("label_looping", {{"windw", 4}}, "/decoders/0/options");
  });
  EXPECT_NE(option.find("/decoders/0/options/windw"), std::string::npos);
  EXPECT_NE(option.find("did you mean 'window'"), std::string::npos);
  EXPECT_HAS(test::user_error([] {
               make_decoder("label_looping", {{"window", 0}}, "x");
             }),
             "1..64");
  EXPECT_HAS(test::user_error([] {
               make_decoder("label_looping", {{"window", "a"}}, "x");
             }),
             "x/window");
  EXPECT_HAS(test::user_error([] {
               make_decoder("frame_looping", {{"batched", 1}}, "x");
             }),
             "true | false");
  EXPECT_HAS(test::user_error([] {
               make_decoder("frame_looping", {{"score_kind", "prob"}}, "x");
             }),
             "logprob");
  EXPECT_HAS(test::user_error([] { make_decoder("null", nlohmann::json::array({1}), "x"); }),
             "object");
}

TEST(Registry, ResolvedOptionsNameEveryField) {
  const auto decoder = make_decoder("label_looping", {{"window", 8}}, "");
  EXPECT_EQ(decoder->options()["window"], 8);
  EXPECT_EQ(decoder->options()["max_symbols"], 10);
  for (const DecoderEntry* entry : decoder_entries()) {
    const auto built = entry->make(nullptr, "");
    // Members of an option that is an object are listed behind it, with a dot.
    const auto of_its_own = [](const OptionInfo& o) { return o.name.find('.') == o.name.npos; };
    EXPECT_EQ(static_cast<std::ptrdiff_t>(built->options().size()),
              std::count_if(entry->options.begin(), entry->options.end(), of_its_own))
        << entry->name;
    EXPECT_EQ(built->describe().name, entry->name);
  }
}

TEST(Registry, ADecoderRefusesAModelItCannotServe) {
  const test::TableModel rnnt{1, {}, test::Table(2, std::vector<double>(2, 0)), {}};
  for (const char* name : {"tdt_min_duration", "ctc_greedy"}) {
    const std::string message =
        test::user_error([&] { make_decoder(name, {}, "")->prepare(test::build(rnnt), {}); });
    EXPECT_NE(message.find("rnnt"), std::string::npos) << name;
  }
}

TEST(SyncDebug, CatchesAHiddenReadAndAllowsDeclaredOnes) {
  const at::Tensor flags = at::ones({3}, at::kBool);
  HostReads host;
  EXPECT_EQ(test::user_error([&] { forbid_undeclared_syncs([&] { host.any(flags); }); }), "");
  EXPECT_EQ(host.count(), 1);
  const std::string hidden =
      test::user_error([&] { forbid_undeclared_syncs([&] { flags.any().item<bool>(); }); });
  EXPECT_NE(hidden.find("_local_scalar_dense"), std::string::npos);
  EXPECT_HAS(test::user_error([&] { forbid_undeclared_syncs([&] { at::nonzero(flags); }); }),
             "nonzero");
}

TEST(SyncDebug, EveryDecoderDeclaresItsReads) {
  const test::TableModel tdt{2, {0, 1, 2}, test::Table(3, {0, 1, 0, 0, 1, 0}), {}};
  const auto batch =
      test::batch_of({test::Table(6, {1, 0, 1, 0, 0, 0}), test::Table(3, {0, 0, 1, 0, 0, 0})}, 6);
  for (const char* name :
       {"frame_looping", "label_looping", "step_replay", "tdt_min_duration", "null"}) {
    for (const int window : {1, 4}) {
      nlohmann::json options = nlohmann::json::object();
      if (std::string(name) == "label_looping") options["window"] = window;
      const auto decoder = make_decoder(name, options, "");
      decoder->prepare(test::build(tdt), {});
      EXPECT_EQ(test::user_error([&] { forbid_undeclared_syncs([&] { decoder->decode(batch); }); }),
                "")
          << name;
    }
  }
}

TEST(BatchedHypotheses, DoublesAndKeepsWhatItHolds) {
  BatchedHypotheses hypotheses(at::zeros({2, 1, 3}), at::tensor({1, 1}, at::kLong), true, 1);
  const at::Tensor even = at::tensor({1, 0}).to(at::kBool);
  for (int64_t i = 0; i < 9; ++i) {
    const at::Tensor values = at::full({2}, i, at::kLong);
    hypotheses.append(even, values, values, values, at::full({2}, 0.5));
  }
  EXPECT_EQ(hypotheses.capacity(), 16);
  const auto rows = hypotheses.result().to_host();
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rows[0].durations.back(), 8);
  EXPECT_EQ(rows[0].score, 4.5f);
  EXPECT_TRUE(rows[1].tokens.empty());
}

}  // namespace
}  // namespace rtfx
