// Tests the cases that a configuration asks for.
#include "harness/config/plan.h"

#include <gtest/gtest.h>

#include "tests/support/plain_config.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::parse;
using test::user_error;
using test::valid;

TEST(Plan, NamesCasesAndReferences) {
  json document = valid();
  document["decoders"] = {"ctc_greedy", "label_looping", "frame_looping", "null"};
  document["baseline"] = "frame_looping";
  document["models"] = {"a.nemo"};
  document["batch_sizes"] = {16};
  document["batch_seconds"] = {120};
  const auto plan = make_plan(parse(document), {{"rnnt", "ctc"}});
  ASSERT_EQ(plan.size(), 2U);
  std::vector<std::string> names, references;
  for (const PlannedDecoder& d : plan[0].decoders) {
    names.push_back(d.case_name);
    references.push_back(d.compared_to);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"a/d/ctc_greedy/b16/fp32", "a/d/label_looping/b16/fp32",
                                      "a/d/frame_looping/b16/fp32", "a/d/null/b16/fp32"}));
  EXPECT_EQ(references,
            (std::vector<std::string>{"ctc_greedy", "frame_looping", "frame_looping", ""}));
  EXPECT_EQ(plan[1].decoders[1].case_name, "a/d/label_looping/s120/fp32");
}

TEST(Plan, ADecoderMayBeForSomeDatasetsAlone) {
  json document = valid();
  document["models"] = {"a.nemo"};
  document["batch_sizes"] = {16};
  document["datasets"] = {{{"id", "x"}, {"manifest", "x.jsonl"}},
                          {{"id", "y"}, {"manifest", "y.jsonl"}}};
  document["decoders"] = json::array({"frame_looping"});
  for (const char* id : {"x", "y"})
    document["decoders"].push_back(
        {{"id", std::string("lm_") + id}, {"name", "label_looping"}, {"datasets", {id}}});
  const auto names = [&] {
    std::vector<std::string> names;
    for (const CaseGroup& group : make_plan(parse(document), {{"rnnt"}}))
      for (const PlannedDecoder& d : group.decoders) names.push_back(d.case_name);
    return names;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"a/x/frame_looping/b16/fp32", "a/x/lm_x/b16/fp32",
                                               "a/y/frame_looping/b16/fp32", "a/y/lm_y/b16/fp32"}));
  document["decoders"][1]["datasets"] = {"z"};
  EXPECT_HAS(user_error([&] { names(); }), "#/decoders/1/datasets: unknown dataset id 'z'");
  document["decoders"] = json::array({document["decoders"][2]});
  EXPECT_HAS(user_error([&] { names(); }), "none is for model 'a' on dataset 'x'");
}

TEST(Plan, ADecoderMayHaveABaselineOfItsOwn) {
  json document = valid();
  document["models"] = {"a.nemo"};
  document["decoders"] = {"frame_looping", "alsd_pp", "ctc_greedy"};
  document["decoders"].push_back({{"id", "other"}, {"name", "alsd_pp"}, {"baseline", "alsd_pp"}});
  const std::vector<ModelKinds> kinds = {{"rnnt", "ctc"}};
  const Config config = parse(document);
  EXPECT_EQ(config.resolved()["decoders"][3]["baseline"], "alsd_pp");
  EXPECT_FALSE(config.resolved()["decoders"][1].contains("baseline"));
  std::vector<std::string> references;
  for (const PlannedDecoder& d : make_plan(config, kinds)[0].decoders)
    references.push_back(d.compared_to);
  EXPECT_EQ(references,
            (std::vector<std::string>{"frame_looping", "frame_looping", "ctc_greedy", "alsd_pp"}));
  for (const char* wrong : {"ctc_greedy", "nobody"}) {
    document["decoders"][3]["baseline"] = wrong;
    const std::string message = user_error([&] { make_plan(parse(document), kinds); });
    EXPECT_HAS(message, "#/decoders/3/baseline");
    EXPECT_HAS(message, "is no decoder of the same kind for model 'a'; ");
    EXPECT_TRUE(message.ends_with("name one of: frame_looping, alsd_pp")) << message;
  }
}

TEST(Plan, ABaselineRunsOnTheDatasetsOfItsDecoder) {
  json document = valid();
  document["models"] = {"a.nemo"};
  document["datasets"].push_back({{"id", "other"}, {"manifest", "o.jsonl"}});
  document["decoders"] = json::array({{{"name", "frame_looping"}, {"datasets", {"d"}}},
                                      {{"name", "alsd_pp"}, {"baseline", "frame_looping"}}});
  const auto message = [&] { return user_error([&] { make_plan(parse(document), {{"rnnt"}}); }); };
  EXPECT_HAS(message(),
             "#/decoders/1/baseline: 'frame_looping' does not run on dataset 'other'; leave out");
  document["decoders"].push_back("label_looping");
  EXPECT_HAS(message(), "does not run on dataset 'other'; name one of: label_looping");
}

TEST(Plan, ADatasetMayBeForSomeBatchSizesAlone) {
  json document = valid();
  document["datasets"].push_back(document["datasets"][0]);
  document["datasets"][0]["batch_sizes"] = {8};
  document["datasets"][1]["id"] = "few";
  document["datasets"][1]["batch_sizes"] = {1, 2};
  std::vector<std::pair<size_t, size_t>> planned;
  for (const CaseGroup& group : make_plan(parse(document), {{"rnnt"}, {"tdt"}}))
    planned.emplace_back(group.dataset, group.batch);
  EXPECT_EQ(planned, (std::vector<std::pair<size_t, size_t>>{{0, 1}, {1, 0}, {0, 1}, {1, 0}}));
  document["datasets"][0]["batch_sizes"] = {2};
  document["datasets"].erase(1);
  EXPECT_HAS(user_error([&] {
               make_plan(parse(document), {{"rnnt"}, {"tdt"}});
             }),
             "datasets: none is for these batches");
}

TEST(Plan, ADatasetThatWouldNotBeMeasuredIsAnError) {
  json document = valid();
  document["datasets"].push_back({{"id", "few"}, {"manifest", "d.jsonl"}, {"batch_sizes", {2, 4}}});
  const std::string message = user_error([&] { make_plan(parse(document), {{"rnnt"}, {"tdt"}}); });
  EXPECT_HAS(message, "dir/c.json#/datasets/1/batch_sizes: 'few' would not be measured");
  EXPECT_EQ(message.find("datasets/0"), std::string::npos);
}

TEST(Plan, AGroupIsTheFirstOfItsSizesWhateverTheyAre) {
  json document = valid();
  document["datasets"].push_back({{"id", "few"}, {"manifest", "d.jsonl"}, {"batch_sizes", {8}}});
  document["dtypes"] = {"fp32", "bf16"};
  const std::vector<CaseGroup> plan = make_plan(parse(document), {{"rnnt"}, {"tdt"}});
  std::vector<std::string> first;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].model == 0 && is_first_batch_size(plan, i))
      first.push_back(plan[i].decoders.front().case_name.substr(2));
  }
  EXPECT_EQ(first,
            (std::vector<std::string>{"d/frame_looping/b1/fp32", "d/frame_looping/b1/bf16",
                                      "few/frame_looping/b8/fp32", "few/frame_looping/b8/bf16"}));
}

TEST(Plan, IsTheProductOfItsLists) {
  json document = valid();
  document["dtypes"] = {"fp32", "bf16"};
  const auto plan = make_plan(parse(document), {{"rnnt"}, {"tdt", "ctc"}});
  EXPECT_EQ(plan.size(), 2U * 1 * 2 * 2);
  for (const CaseGroup& group : plan) EXPECT_EQ(group.decoders.size(), 2U);
}

TEST(Plan, LargestBatchesAndPairsOfDtypesHaveNames) {
  json document = valid();
  document["models"] = {"a.nemo"};
  document["batch_sizes"] = {4, "max"};
  document["dtypes"] = {"bf16", {{"encoder", "bf16"}, {"decoder", "fp32"}}, "fp8"};
  const Config config = parse(document);
  EXPECT_EQ(config.resolved()["batch_sizes"], document["batch_sizes"]);
  EXPECT_EQ(config.resolved()["dtypes"], (json{"bf16", "bf16+fp32", "fp8"}));
  document["dtypes"] = config.resolved()["dtypes"];
  EXPECT_EQ(parse(document).hash(), config.hash());
  std::vector<std::string> names;
  for (const CaseGroup& group : make_plan(config, {{"rnnt"}})) {
    names.push_back(group.decoders.front().case_name.substr(4));
    EXPECT_EQ(group.rule.largest, names.back().find("/bmax/") != std::string::npos);
  }
  const std::string decoder = config.decoders.front().id;
  std::vector<std::string> expected;
  for (const char* dtype : {"bf16", "bf16+fp32", "fp8"})
    for (const char* batch : {"/b4/", "/bmax/"}) expected.push_back(decoder + batch + dtype);
  EXPECT_EQ(names, expected);
  EXPECT_HAS(user_error([&] { require_sizes(config, "rtfx profile"); }), "`rtfx profile`");
}

TEST(Plan, IncompatiblePairIsAnErrorUnlessRestricted) {
  json document = valid();
  document["decoders"].push_back("tdt_min_duration");
  const std::vector<ModelKinds> kinds = {{"rnnt"}, {"tdt"}};
  const std::string message = user_error([&] { make_plan(parse(document), kinds); });
  for (const char* part :
       {"#/decoders/2", "'tdt_min_duration'", "'a'", "rnnt", R"("models": ["tdt"])"})
    EXPECT_HAS(message, part);
  for (const char* restriction : {"tdt", "b"}) {
    document["decoders"][2] = {{"name", "tdt_min_duration"}, {"models", {restriction}}};
    size_t with = 0;
    for (const CaseGroup& group : make_plan(parse(document), kinds))
      with += group.decoders.size() == 3;
    EXPECT_EQ(with, 2U) << restriction;
  }
  document["decoders"][2]["models"] = {"c"};
  EXPECT_HAS(user_error([&] { make_plan(parse(document), kinds); }), "#/decoders/2/models");
  const Config overridden = parse(document, {"decoders.2.models=d"});
  EXPECT_TRUE(user_error([&] {
                make_plan(overridden, kinds);
              }).starts_with("--set decoders.2.models=d: dir/c.json#/decoders/2/models: "));
}

}  // namespace
}  // namespace rtfx
