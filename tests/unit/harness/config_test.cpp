// Every configuration error names the file, JSON pointer, value and allowed values.
#include "harness/config/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "harness/config/document.h"
#include "harness/config/plan.h"
#include "tests/support/plain_config.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::parse;
using test::user_error;
using test::valid;

struct BadConfig {
  const char* name;
  const char* change;  // a JSON merge patch
  std::vector<const char*> parts;
};

class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, NamesPlaceValueAndRemedy) {
  json document = valid();
  document.merge_patch(json::parse(GetParam().change));
  const std::string message = user_error([&] { parse(document); });
  for (const char* part : GetParam().parts) EXPECT_HAS(message, part);
}

INSTANTIATE_TEST_SUITE_P(
    Config, BadConfigTest,
    testing::Values(
        BadConfig{"key", R"({"decoder": 1})", {"dir/c.json#/decoder:", "did you mean 'decoders'"}},
        BadConfig{"inner_key",
                  R"({"protocol": {"warmup_round": 1}})",
                  {"dir/c.json#/protocol/warmup_round:", "did you mean 'warmup_rounds'"}},
        BadConfig{"question", R"({"question": null})", {"dir/c.json#:", "'question' is missing"}},
        BadConfig{"empty_question", R"({"question": ""})", {"dir/c.json#/question:", "\"\""}},
        BadConfig{"type",
                  R"({"batch_sizes": [1, "8"]})",
                  {"dir/c.json#/batch_sizes/1:", "\"8\"", "an integer 1..65536"}},
        BadConfig{"range", R"({"batch_sizes": [0]})", {"dir/c.json#/batch_sizes/0:", "0 is not"}},
        BadConfig{"twice",
                  R"({"batch_sizes": [8, 8]})",
                  {"dir/c.json#/batch_sizes/1:", "'b8' is there twice"}},
        BadConfig{
            "budget_without_precision",
            R"({"protocol": {"budget_seconds": 60}})",
            {"dir/c.json#/protocol/budget_seconds:", "limits only", "give protocol.precision"}},
        BadConfig{"name", R"({"name": "../../zzz"})", {"dir/c.json#/name:", "'../../zzz'"}},
        BadConfig{"name_of_a_parent", R"({"name": ".."})", {"dir/c.json#/name:", "'..'"}},
        BadConfig{"absolute_name", R"({"name": "/zzz"})", {"dir/c.json#/name:", "'/zzz'"}},
        BadConfig{"no_batches", R"({"batch_sizes": null})", {"dir/c.json", "batch_seconds"}},
        BadConfig{"empty_list", R"({"models": []})", {"dir/c.json#/models:", "[] is not allowed"}},
        BadConfig{"dtype",
                  R"({"dtypes": ["fp23"]})",
                  {"dir/c.json#/dtypes/0:", "did you mean 'fp32'", "bf16"}},
        BadConfig{"decoder_fp8",
                  R"({"dtypes": [{"encoder": "fp8", "decoder": "fp8"}]})",
                  {"dir/c.json#/dtypes/0:", "no decoder computes in fp8"}},
        BadConfig{"half_a_dtype",
                  R"({"dtypes": [{"encoder": "bf16"}]})",
                  {"dir/c.json#/dtypes/0:", "'decoder' is missing"}},
        BadConfig{"same_dtype",
                  R"({"dtypes": ["fp8", {"encoder": "fp8", "decoder": "bf16"}]})",
                  {"dir/c.json#/dtypes/1:", "'fp8' is there twice"}},
        BadConfig{"sort", R"({"sort": "duration"})", {"dir/c.json#/sort:", "duration_desc"}},
        BadConfig{"scorer", R"({"scorer": "basic"})", {"dir/c.json#/scorer:", "basic_english"}},
        BadConfig{"grade",
                  R"({"verify": {"required": {"fp32": "exac"}}})",
                  {"dir/c.json#/verify/required/fp32:", "did you mean 'exact'"}},
        BadConfig{"decoder",
                  R"({"decoders": ["label_loping"]})",
                  {"dir/c.json#/decoders/0:", "did you mean 'label_looping'"}},
        BadConfig{"option",
                  R"({"decoders": [{"name": "label_looping", "options": {"windw": 1}}]})",
                  {"dir/c.json#/decoders/0/options/windw:", "did you mean 'window'"}},
        BadConfig{"option_value",
                  R"({"decoders": [{"name": "label_looping", "options": {"window": 65}}]})",
                  {"dir/c.json#/decoders/0/options/window:", "65", "1..64"}},
        BadConfig{"option_list",
                  R"({"decoders": [{"name": "label_looping", "options": {"window": []}}]})",
                  {"dir/c.json#/decoders/0/options/window:", "[] is not allowed"}},
        BadConfig{"id_twice",
                  R"({"decoders": ["null", "null"]})",
                  {"dir/c.json#/decoders/1:", "'null' is there twice"}},
        BadConfig{"id_with_a_slash",
                  R"({"decoders": [{"id": "../../mine", "name": "null"}]})",
                  {"dir/c.json#/decoders/0:", "'../../mine' has a slash"}},
        BadConfig{"device",
                  R"({"device": "gpu"})",
                  {"dir/c.json#/device:", "\"gpu\"", "auto | cpu | cuda | cuda:N"}},
        BadConfig{"number_of_a_device", R"({"device": "cuda:x"})", {"dir/c.json#/device:"}},
        BadConfig{"id_of_the_control",
                  R"({"decoders": ["frame_looping", {"id": "frame_looping.aa", "name": "null"}],
                      "protocol": {"aa_control": true}})",
                  {"dir/c.json#/decoders/1:", "'frame_looping.aa'", "protocol.aa_control"}},
        BadConfig{"seconds_of_a_rule",
                  R"({"stream": {"rule": "c120", "seconds": 5}})",
                  {"dir/c.json#/stream/seconds:", "give stream.rule.seconds"}},
        BadConfig{"streams_that_never_begin",
                  R"({"stream": {"arrivals": "staggered", "seconds": 6}})",
                  {"dir/c.json#/stream/stagger_seconds:", "within 10 s", "raise stream.seconds"}},
        BadConfig{"streams_that_never_begin_in_a_trial",
                  R"({"stream": {"rule": {"seconds": 5}}})",
                  {"dir/c.json#/stream/stagger_seconds:", "the 5 s", "stream.rule.seconds"}},
        BadConfig{"streams_that_never_begin_in_the_last_trial",
                  R"({"stream": {"rule": {"confirm_seconds": 7}, "period_ms": 400,
                                 "stagger_seconds": 6.7}})",
                  {"dir/c.json#/stream/stagger_seconds:", "the 7 s", "confirm_seconds"}},
        BadConfig{"baseline",
                  R"({"baseline": "windo"})",
                  {"dir/c.json#/baseline:", "did you mean 'window'"}},
        BadConfig{"baseline_head",
                  R"({"decoders": ["frame_looping", "ctc_greedy"], "baseline": "ctc_greedy"})",
                  {"dir/c.json#/baseline:", "no transducer decoder"}},
        BadConfig{"baseline_without_words",
                  R"({"decoders": ["ctc_greedy", "null"], "baseline": "null"})",
                  {"dir/c.json#/baseline:", "no words to compare with"}},
        BadConfig{"fallback_of_a_model",
                  R"({"models": [{"path": "m.nemo", "fallback": {"encoder": "tiny"}}]})",
                  {"dir/c.json#/models/0/fallback:", "unknown key"}},
        BadConfig{"fallback_of_data",
                  R"({"datasets": [{"id": "d", "manifest": "a", "fallback": "b"}]})",
                  {"dir/c.json#/datasets/0/fallback:", "unknown key"}},
        BadConfig{"dataset",
                  R"({"datasets": [{"id": "d", "manifest": "a", "files": ["b"]}]})",
                  {"dir/c.json#/datasets/0:", "exactly one of manifest, librispeech, files"}}),
    [](const auto& info) { return info.param.name; });

TEST(Config, AllErrorsAreToldAtOnce) {
  json document = valid();
  document["batch_size"] = 4;
  document["dtypes"] = {"fp32", "fp23", "fp61"};
  document["protocol"] = {{"measured_rounds", 0}, {"seeds", 1}};
  document["decoders"] = {"label_loping", "frame_loping"};
  document["datasets"] = {{{"id", "d"}}};
  try {
    parse(document);
    FAIL() << "accepted";
  } catch (const UserErrors& e) {
    std::set<std::string> places;
    for (const UserError& one : e.all()) places.insert(one.where().substr(one.where().find('#')));
    EXPECT_EQ(places, (std::set<std::string>{"#/batch_size", "#/dtypes/1", "#/dtypes/2",
                                             "#/protocol/measured_rounds", "#/protocol/seeds",
                                             "#/decoders/0", "#/decoders/1", "#/datasets/0"}));
  }
}

TEST(Config, AnErrorOfAnOverrideNamesIt) {
  const auto message = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      parse(valid(), overrides);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(message({"protocol.measured_rounds=0"})
                  .starts_with("--set protocol.measured_rounds=0: dir/c.json#/protocol/"));
  EXPECT_TRUE(
      message({"decoders=[\"frame_loping\"]"})
          .starts_with("--set decoders=[\"frame_loping\"]: dir/c.json#/decoders/0: unknown"));
  EXPECT_TRUE(message({"protocol.measured_rounds=1", "sorted=1"}).starts_with("--set sorted=1: "));
}

TEST(Config, PathsOfOverridesAreRelativeToTheWorkingFolder) {
  const Config config =
      parse(valid(), {"datasets.0.manifest=mine/d.jsonl", "models=[\"/abs/a.nemo\", \"b.nemo\"]"});
  EXPECT_EQ(config.datasets[0].manifest, "mine/d.jsonl");
  EXPECT_EQ(config.models[0].path, "/abs/a.nemo");
  EXPECT_EQ(config.models[1].path, "b.nemo");
  const Config upwards = parse_config({valid(), "../dir/c.json", {"datasets.0.manifest=d.jsonl"}});
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(std::filesystem::absolute(upwards.datasets[0].manifest).lexically_normal(),
            here / "d.jsonl");
  EXPECT_EQ(parse(valid()).datasets[0].manifest, "dir/d.jsonl");
}

OptionInfo file_option(const char* name) {
  return {.name = name,
          .help = "for tests",
          .allowed = "a file",
          .default_value = {},
          .default_text = {},
          .is_file = true};
}

/// Registers a decoder that has two files among its options, which no decoder of rtfx has.
const RegisterDecoder two_files{
    {"test_two_files",
     "for tests",
     {file_option("first"), file_option("inner.second")},
     [](const json&, std::string_view) { return make_decoder("null", json::object(), ""); }}};

TEST(Config, EachPathOfAnOverrideIsRelativeToTheWorkingFolder) {
  json document = valid();
  document["decoders"].push_back({{"name", "test_two_files"},
                                  {"options", {{"first", "same.bin"}, {"inner", json::object()}}}});
  const auto options = [&](const std::vector<std::string>& overrides) {
    std::vector<json> all;
    for (const DecoderSpec& spec : parse(document, overrides).decoders)
      if (spec.name == "test_two_files") all.push_back(spec.options);
    return all;
  };
  // Two options have equal texts, one from the file and one from an override.
  const json one = options({"decoders.2.options.inner.second=same.bin"}).at(0);
  EXPECT_EQ(one, (json{{"first", "dir/same.bin"}, {"inner", {{"second", "same.bin"}}}}));
  const json both =
      options({R"(decoders.2.options={"first": "x", "inner": {"second": "x"}})"}).at(0);
  EXPECT_EQ(both, (json{{"first", "x"}, {"inner", {{"second", "x"}}}}));
  // A list makes a decoder of each element. The last element has an override of its own.
  document["decoders"][2]["options"]["first"] = {"a", "b"};
  const auto listed = options({"decoders.2.options.first.1=c"});
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0]["first"], "dir/a");
  EXPECT_EQ(listed[1]["first"], "c");
  EXPECT_EQ(options({R"(decoders.2.options.first=["c", "/abs"])"})[0]["first"], "c");
  EXPECT_EQ(options({R"(decoders.2.options.first=["c", "/abs"])"})[1]["first"], "/abs");
  const auto inner = options({R"(decoders.2.options.inner=[null, {"second": "d"}])"});
  EXPECT_EQ(inner.back()["inner"]["second"], "d");
}

TEST(Config, ADevelopmentSetOfAnOverrideIsRelativeToTheWorkingFolder) {
  json document = valid();
  document["tune"] = {{"decoder", "window"},
                      {"dataset", {{"id", "dev"}, {"manifest", "dev.jsonl"}}},
                      {"options", {{"window", {1, 4}}}}};
  EXPECT_EQ(parse(document).tune[0].dataset.manifest, "dir/dev.jsonl");
  EXPECT_EQ(parse(document, {"tune.dataset.manifest=dev.jsonl"}).tune[0].dataset.manifest,
            "dev.jsonl");
  const std::vector<std::string> files = {R"(tune.dataset={"id": "dev", "files": ["a", "/b"]})"};
  EXPECT_EQ(parse(document, files).tune[0].dataset.files, (std::vector<std::string>{"a", "/b"}));
  const json written = with_relative_paths(
      config_keys().info(), {document, "dir/c.json", {"tune.dataset.manifest=dev.jsonl"}});
  EXPECT_EQ(written["tune"]["dataset"]["manifest"], "../dev.jsonl");
  EXPECT_EQ(written["datasets"], document["datasets"]);
}

TEST(Config, ALaterOverrideOfTheWholeTakesThePlaceOfAnEarlierOneOfAPart) {
  const auto message = [](const std::vector<std::string>& overrides) {
    return user_error([&] { parse(valid(), overrides); });
  };
  EXPECT_TRUE(message({"protocol.seed=1", R"(protocol={"seed": "x"})"})
                  .starts_with(R"(--set protocol={"seed": "x"}: dir/c.json#/protocol/seed: )"));
  EXPECT_TRUE(message({R"(protocol={"cv_max": 1})", "protocol.seed=x"})
                  .starts_with("--set protocol.seed=x: dir/c.json#/protocol/seed: "));
  EXPECT_TRUE(message({"batch_sizes.01=x"}).starts_with("--set batch_sizes.01=x: dir/c.json#/"));
}

TEST(Config, BatchSizesOfAllDatasetsNeedNoListAtTheTop) {
  json document = valid();
  document.erase("batch_sizes");
  document["datasets"] = {{{"id", "d"}, {"manifest", "d"}, {"batch_sizes", {8, 2}}},
                          {{"id", "e"}, {"manifest", "e"}, {"batch_sizes", {4, 2}}}};
  const Config config = parse(document);
  EXPECT_EQ(config.batch_sizes, (std::vector<int64_t>{2, 4, 8}));
  document["batch_sizes"] = {2, 4, 8};
  EXPECT_EQ(parse(document).hash(), config.hash());
  document["batch_sizes"] = nullptr;
  EXPECT_EQ(make_plan(parse(document), {{"rnnt"}, {"rnnt"}}).size(), 2U * (2 + 2));
  document["datasets"][1].erase("batch_sizes");
  EXPECT_HAS(user_error([&] { parse(document); }), "neither batch_sizes nor batch_seconds");
}

TEST(Config, ACtcDecoderMayBeTheBaselineOfCtcAlone) {
  json document = valid();
  document["decoders"] = {{{"id", "one"}, {"name", "ctc_greedy"}},
                          {{"id", "two"}, {"name", "ctc_greedy"}}};
  document["baseline"] = "two";
  const Config config = parse(document);
  EXPECT_EQ(config.baseline, "two");
  const std::vector<ModelKinds> kinds(2, ModelKinds{"ctc"});
  const std::vector<CaseGroup> plan = make_plan(config, kinds);
  for (const PlannedDecoder& decoder : plan[0].decoders) EXPECT_EQ(decoder.compared_to, "two");
}

TEST(Config, FillsDefaultsAndResolvesPathsAgainstItsFolder) {
  const Config config = parse(valid());
  EXPECT_EQ(config.name, "c");
  EXPECT_EQ(config.output, "runs/c");
  EXPECT_EQ(config.models[0].id, "a");
  EXPECT_EQ(config.models[0].path, "dir/m/a.nemo");
  EXPECT_EQ(config.datasets[0].manifest, "dir/d.jsonl");
  EXPECT_EQ(config.baseline, "frame_looping");
  EXPECT_EQ(config.required.at("fp32"), "exact");
}

TEST(Config, ListsOfOptionValuesBecomeTheirProduct) {
  json document = valid();
  document["decoders"] = json::parse(
      R"([{"id": "l", "name": "label_looping", "options": {"window": [1, 8], "max_symbols": [5, 10]}}])");
  std::vector<std::string> ids;
  for (const DecoderSpec& spec : parse(document).decoders) ids.push_back(spec.id);
  EXPECT_EQ(ids, (std::vector<std::string>{
                     "l[max_symbols=5][window=1]", "l[max_symbols=5][window=8]",
                     "l[max_symbols=10][window=1]", "l[max_symbols=10][window=8]"}));
}

TEST(Config, ListsWithinAnOptionAndOfObjectsToo) {
  json document = valid();
  document["decoders"] = json::parse(R"([{"id": "l", "name": "label_looping", "options":
    {"lm": [null, {"path": "../tests/data/two_gram.arpa", "alpha": [0.1, 0.2]}]}}])");
  const Config config = parse(document);
  ASSERT_EQ(config.decoders.size(), 3U);
  EXPECT_EQ(config.decoders[0].id, "l[lm=null]");
  EXPECT_EQ(config.decoders[1].options["lm"]["alpha"], 0.1);
  EXPECT_TRUE(config.decoders[2].id.ends_with("[lm.alpha=0.2]")) << config.decoders[2].id;
}

TEST(Config, FilesOfOptionsAreRelativeToItsFolder) {
  json document = valid();
  json& options = document["decoders"][1]["options"];
  options["lm"] = {{"path", "../tests/data/two_gram.arpa"}};
  const Config config = parse(document);
  EXPECT_EQ(config.decoders[1].options["lm"]["path"], "tests/data/two_gram.arpa");
  EXPECT_NE(config.hash(), parse(valid()).hash());
  EXPECT_EQ(config.hash(), parse_config({document, "docs/c.json"}).hash());
  options["lm"]["path"] = "none.arpa";
  EXPECT_HAS(user_error([&] { parse(document); }),
             "dir/c.json#/decoders/1/options/lm/path: no such file: 'dir/none.arpa'");
  options["lm"] = {{"alpha", 0.5}};
  EXPECT_HAS(user_error([&] { parse(document); }), "/options/lm: 'path' is missing; add it");
  options["lm"] = {{"path", "../tests/data/two_gram.arpa"}, {"beta", 1}};
  EXPECT_HAS(user_error([&] { parse(document); }), "/options/lm/beta: unknown option 'beta'");
}

TEST(Config, OverridesReachAnyPlaceAsJsonOrText) {
  const Config config =
      parse(valid(), {"protocol.measured_rounds=7", "decoders.1.options.window=2", "device=cpu"});
  EXPECT_EQ(config.protocol.measured_rounds, 7);
  EXPECT_EQ(config.decoders[1].options.at("window"), 2);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_HAS(user_error([] { parse(valid(), {"device"}); }), "--set device");
  EXPECT_HAS(user_error([] { parse(valid(), {"devise=cpu"}); }), "did you mean 'device'");
}

TEST(Config, OverridesReachIntoShortForms) {
  json document = valid();
  document["models"] = {"a.nemo", "b.nemo"};
  document["datasets"] = document["datasets"][0];
  document["decoders"] = "label_looping";
  const Config config = parse(document, {"models.1.path=mine.nemo", "models.0.id=first",
                                         "datasets.0.limit=3", "decoders.0.options.window=2"});
  EXPECT_EQ(config.models[0].path, "dir/a.nemo");
  EXPECT_EQ(config.models[0].id, "first");
  EXPECT_EQ(config.models[1].path, "mine.nemo");
  EXPECT_EQ(config.datasets[0].limit, 3);
  EXPECT_EQ(config.decoders[0].name, "label_looping");
  EXPECT_EQ(config.decoders[0].options.at("window"), 2);
  EXPECT_EQ(parse(document, {"decoders.0=frame_looping"}).decoders[0].name, "frame_looping");
  EXPECT_HAS(user_error([&] { parse(document, {"datasets.0.limit=x"}); }),
             "--set datasets.0.limit=x: dir/c.json#/datasets/limit: ");
  EXPECT_HAS(user_error([&] { parse(document, {"decoders.1.id=x"}); }), "single value");
  document["batch_sizes"] = 4;
  document["dtypes"] = "fp32";
  const Config numbers = parse(document, {"batch_sizes.0=8", "dtypes.0=bf16"});
  EXPECT_EQ(numbers.batch_sizes, std::vector<int64_t>{8});
  EXPECT_EQ(numbers.dtypes, std::vector<std::string>{"bf16"});
  EXPECT_HAS(user_error([&] { parse(document, {"batch_sizes.1=8"}); }), "single value");
}

TEST(Config, HashIsOfWhatDeterminesTheResults) {
  const std::string hash = parse(valid()).hash();
  json reordered = json::parse(R"({"batch_sizes": [1, 8]})");
  const json source = valid();
  for (auto it = source.rbegin(); it != source.rend(); ++it) reordered[it.key()] = it.value();
  EXPECT_EQ(parse(reordered).hash(), hash);
  EXPECT_EQ(parse(valid(), {"question=another", "name=n", "output=o", "sort=duration_desc",
                            "protocol.measured_rounds=9"})
                .hash(),
            hash);
  EXPECT_EQ(parse_config({valid(), "/elsewhere/c.json"}).hash(), hash);
  EXPECT_NE(parse(valid(), {"sort=none"}).hash(), hash);
  EXPECT_NE(parse(valid(), {"decoders.1.options.window=8"}).hash(), hash);
  json document = valid();
  const auto here = std::filesystem::current_path();
  document["models"] = json::array({(here / "m.nemo").string()});
  EXPECT_EQ(parse_config({document, "c.json"}).hash(),
            parse_config({document, here / "c.json"}).hash());
}

class ConfigFile : public test::TempFolder {};

TEST_F(ConfigFile, ModelsOfHuggingFaceAreFoundInItsCache) {
  write("models--nvidia--some-0.6b/refs/main", "0123abc");
  const auto file = write("models--nvidia--some-0.6b/snapshots/0123abc/some-0.6b.nemo", "?");
  setenv("HF_HUB_CACHE", path("").c_str(), 1);
  json document = valid();
  document["models"][0] = "nvidia/some-0.6b";
  const std::vector<std::string> address = {
      "models.1.path=https://huggingface.co/nvidia/some-0.6b"};
  const Config config = parse(document, address);
  EXPECT_EQ(config.models[0].path, file);
  EXPECT_EQ(config.models[0].id, "some-0.6b");
  EXPECT_EQ(config.models[1].path, file);
  const std::string message = user_error([&] { parse(valid(), {"models.0=nvidia/another"}); });
  unsetenv("HF_HUB_CACHE");
  EXPECT_HAS(message, "--set models.0=nvidia/another: ");
  EXPECT_HAS(message, "'hf download nvidia/another'");
}

TEST_F(ConfigFile, AFolderOfTheCacheHasTheNameOfItsModel) {
  json document = valid();
  document["models"][0] = "/cache/models--nvidia--some-0.6b/snapshots/0123abc";
  EXPECT_EQ(parse(document).models[0].id, "some-0.6b");
  document["models"][0] = "/cache/models--nvidia--some-0.6b/snapshots/0123abc/";
  EXPECT_EQ(parse(document).models[0].id, "some-0.6b");
  document["models"][0] = "/cache/snapshots/0123abc";
  EXPECT_EQ(parse(document).models[0].id, "0123abc");
}

/// Behind a link to a folder, ".." is the parent of the folder itself.
TEST_F(ConfigFile, PathsAreRelativeToAFolderBehindALink) {
  write("real/configs/x", "");
  write("real/models/m.nemo", "?");
  std::filesystem::create_directory_symlink(path("real/configs"), path("linked"));
  json document = valid();
  document["models"] = {"../models/m.nemo"};
  EXPECT_TRUE(
      std::filesystem::exists(parse_config({document, path("linked") / "c.json"}).models[0].path));
  EXPECT_EQ(parse_config({document, path("real/configs") / "c.json"}).models[0].path,
            path("real/models/m.nemo"));
}

TEST_F(ConfigFile, UnreadableFilesAreNamed) {
  EXPECT_HAS(user_error([&] { parse_config(read_document(path("none.json"))); }), "none.json");
  EXPECT_HAS(user_error([&] { parse_config(read_document(path("").parent_path())); }),
             "is a directory");
  const auto broken = write("broken.json", "{\"question\": \"a\",\n  oops}");
  EXPECT_HAS(user_error([&] { parse_config(read_document(broken)); }), "line 2");
}

TEST(Config, WhatIsResolvedCanBeReadAgain) {
  for (const char* stream : {"null", "{}", R"({"rule": "c120"})",
                             R"({"scope": "speech", "quality": true, "endpoints": ["pause"]})"}) {
    json document = valid();
    document["decoders"] = {"ctc_greedy"};  // without a baseline
    document["stream"] = json::parse(stream);
    const json resolved = parse(document).resolved();
    EXPECT_FALSE(resolved.contains("baseline"));
    EXPECT_EQ(parse_config({resolved, "c.json"}).resolved(), resolved) << stream;
  }
}

TEST(Config, KeysOfOtherReadersAreKeptAndChangeNoHash) {
  json document = valid();
  document["prepare"] = json::parse(R"([{"graph": "a.tlg", "lexicon": "/l", "topology": null},
                                        {"words": "w", "dataset": "d", "said": false}])");
  document["paper"] = {{"title", "T"}};
  document["cells"] = json::array();
  const Config config = parse(document);
  const json made = json::parse(
      R"([{"graph": "dir/a.tlg", "lexicon": "/l", "topology": "compact"},
          {"words": "dir/w", "dataset": "d", "said": false}])");
  EXPECT_EQ(config.foreign,
            (json{{"prepare", made}, {"paper", {{"title", "T"}}}, {"cells", json::array()}}));
  EXPECT_EQ(config.resolved(), parse(valid()).resolved());
  EXPECT_EQ(config.hash(), parse(valid()).hash());
  document["prepare"] = {{"words", "w"}};  // stands for a list of one
  EXPECT_EQ(parse(document).foreign["prepare"],
            json::parse(R"([{"words": "dir/w", "said": true}])"));
}

TEST(Config, APathThatIsNoUtf8CanBeHashedAndOverridden) {
  const Config config = parse(valid(), {"output=runs/caf\xE9", "models.1.path=m/caf\xE9.nemo"});
  EXPECT_EQ(config.output, "runs/caf\xE9");
  EXPECT_EQ(config.models[1].path, "m/caf\xE9.nemo");
  EXPECT_EQ(config.hash().size(), 64U);
}

/// The control is a decoder of the plan, but it changes neither the resolved decoders nor the hash.
TEST(Config, AAControlRepeatsTheBaseline) {
  const Config plain = parse(valid());
  const Config config = parse(valid(), {"protocol.aa_control=true"});
  ASSERT_EQ(config.decoders.size(), plain.decoders.size() + 1);
  EXPECT_EQ(config.decoders.back().id, config.baseline + ".aa");
  EXPECT_EQ(config.decoders.back().control_of, config.baseline);
  EXPECT_EQ(config.resolved()["decoders"], plain.resolved()["decoders"]);
  EXPECT_EQ(config.hash(), plain.hash());
}

}  // namespace
}  // namespace rtfx
