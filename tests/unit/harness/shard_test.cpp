#include "harness/run/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>

#include "base/error.h"
#include "harness/run/merge_shards.h"

namespace rtfx {
namespace {

Environment variables(std::map<std::string, std::string> values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Shard, ByHand) {
  const Shard shard = parse_shard("2/4", variables({{"RANK", "0"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(shard.label(), "2-of-4");
  EXPECT_EQ(shard.local_index, 2);
  EXPECT_EQ(shard.local_count, 4);
  EXPECT_EQ(shard.host, "127.0.0.1");
  EXPECT_EQ(shard.port, 1234);
  EXPECT_FALSE(shard.whole());
  EXPECT_EQ(shard.folder("runs/x"), std::filesystem::path("runs/x/shards/2-of-4"));
  EXPECT_TRUE(parse_shard("0/1", variables({})).whole());
  EXPECT_EQ(Shard().folder("runs/x"), std::filesystem::path("runs/x"));
}

TEST(Shard, FromTorchrun) {
  const Shard shard = parse_shard("auto", variables({{"RANK", "5"},
                                                     {"WORLD_SIZE", "8"},
                                                     {"LOCAL_RANK", "1"},
                                                     {"LOCAL_WORLD_SIZE", "4"},
                                                     {"MASTER_ADDR", "node1"},
                                                     {"MASTER_PORT", "29500"},
                                                     {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(shard.label(), "5-of-8");
  EXPECT_EQ(shard.local_index, 1);
  EXPECT_EQ(shard.local_count, 4);
  EXPECT_EQ(shard.host, "node1");
  EXPECT_EQ(shard.port, 29500);
  EXPECT_TRUE(shard.launcher_listens);
  EXPECT_FALSE(shard.local_cpus);
}

TEST(Shard, FromSlurm) {
  std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}};
  const Shard shard = parse_shard("auto", variables(slurm));
  EXPECT_EQ(shard.label(), "3-of-4");
  EXPECT_EQ(shard.local_index, 1);
  EXPECT_FALSE(shard.launcher_listens);
  EXPECT_EQ(shard.local_count, 1);
  EXPECT_FALSE(shard.local_cpus);
  slurm["SLURM_CPUS_ON_NODE"] = "32";
  EXPECT_EQ(parse_shard("auto", variables(slurm)).local_cpus, 32);
  slurm["SLURM_TASKS_PER_NODE"] = "3(x2),1";
  EXPECT_EQ(parse_shard("auto", variables(slurm)).local_count, 3);
  slurm["SLURM_NNODES"] = "2";
  EXPECT_THROW(parse_shard("auto", variables(slurm)), UserError);
  slurm["MASTER_ADDR"] = "node1";
  EXPECT_EQ(parse_shard("auto", variables(slurm)).host, "node1");
}

TEST(Shard, APortHasSixteenBits) {
  for (const char* port : {"1", "65535"})
    EXPECT_EQ(parse_shard("0/2", variables({{"MASTER_PORT", port}})).port, std::stoi(port));
  for (const std::string port : {"0", "65536", "99999", "abc"}) {
    try {
      parse_shard("0/2", variables({{"MASTER_PORT", port}}));
      ADD_FAILURE() << port;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(),
                "--shard: MASTER_PORT is '" + port + "'; set it to a number from 1 to 65535");
    }
  }
}

TEST(Shard, BadArguments) {
  for (const char* text : {"", "1", "4/4", "-1/4", "1/x", "0/0", "1/4/2", "1.0/2"})
    EXPECT_THROW(parse_shard(text, variables({})), UserError) << text;
  EXPECT_THROW(parse_shard("auto", variables({})), UserError);
  EXPECT_THROW(parse_shard("auto", variables({{"RANK", "0"}, {"WORLD_SIZE", "two"}})), UserError);
}

TEST(Deal, IsASnake) {
  const std::vector<double> seconds = {7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(deal(seconds, 0, 3), (std::vector<size_t>{0, 5, 6}));
  EXPECT_EQ(deal(seconds, 1, 3), (std::vector<size_t>{1, 4}));
  EXPECT_EQ(deal(seconds, 2, 3), (std::vector<size_t>{2, 3}));
}

TEST(Deal, EveryUtteranceOnceAndEqualShares) {
  std::mt19937 generator(1);
  std::lognormal_distribution<double> duration(1.5, 0.7);
  std::vector<double> seconds(2939);
  for (double& s : seconds) s = duration(generator);
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double longest = *std::max_element(seconds.begin(), seconds.end());
  for (const int64_t count : {1, 2, 3, 4, 8, 100}) {
    std::vector<int> taken(seconds.size());
    for (int64_t i = 0; i < count; ++i) {
      double share = 0;
      for (const size_t u : deal(seconds, i, count)) {
        ++taken[u];
        share += seconds[u];
      }
      EXPECT_NEAR(share, all / static_cast<double>(count), longest) << i << " of " << count;
    }
    EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int n) { return n == 1; }));
  }
}

/// Returns a shard that has these rounds of these cases.
ResultSet shard_with(const std::map<std::string, std::vector<int64_t>>& cases) {
  ResultSet shard;
  shard.provenance.kind = "provenance";
  shard.provenance.provenance_id = "p";
  for (const auto& [name, rounds] : cases) {
    CaseSummary& summary = shard.cases.emplace_back().summary;
    for (const int64_t round : rounds) {
      const nlohmann::json record = {
          {"kind", "run"},
          {"case", name},
          {"result_key", "k"},
          {"round", round},
          {"dataset", {{"id", "d"}, {"utterances", 2}, {"audio_seconds", 10.0}}},
          {"decoder", {{"id", "x"}}},
          {"regions", {{"decode", {{"host_seconds", 1.0}}}}},
          {"total_seconds", 2.0},
          {"metrics", {{"rtfx.total", 5.0}, {"rtfx.decode", 10.0}}},
          {"wer",
           {{"wer", 0.0},
            {"substitutions", 0},
            {"insertions", 0},
            {"deletions", 0},
            {"reference_words", 2}}},
          {"exactness", nullptr},
          {"hypotheses_sha256", "h"}};
      const record::Run run = record::Run::table().read(record);
      summary.last = run;
      summary.rounds.push_back(run);
    }
  }
  return shard;
}

TEST(MergeShards, NoticesNameWhatAShardLacks) {
  testing::internal::CaptureStderr();
  const record::Records records = merge_shards(
      {shard_with({{"a", {0, 1}}, {"b", {0}}}), shard_with({{"a", {0, 2}}, {"c", {0}}})});
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "rtfx: notice: shard 1-of-2 lacks round 1 of the case a; the merged journal leaves it out\n"
      "rtfx: notice: shard 0-of-2 lacks round 2 of the case a; the merged journal leaves it out\n"
      "rtfx: notice: shard 1-of-2 lacks the case b; the merged journal leaves it out\n"
      "rtfx: notice: shard 0-of-2 lacks the case c; the merged journal leaves it out\n");
  ASSERT_EQ(records.size(), 2U);  // the provenance and round 0 of the case a
  EXPECT_EQ(std::get<record::Run>(records[1]).round, 0);
}

TEST(MergeShards, ARoundIsEmptyWhereAllItsPartsAre) {
  const auto part = [](double seconds, bool empty) {
    ResultSet shard = shard_with({{"a", {0}}});
    auto& run = std::get<record::Run>(shard.cases.front().summary.rounds.front());
    run.total_seconds = seconds;
    if (empty) run.all_empty = true;
    return shard;
  };
  const auto is_empty = [](const std::vector<ResultSet>& shards) {
    return std::get<record::Run>(merge_shards(shards).at(1)).all_empty == true;
  };
  EXPECT_FALSE(is_empty({part(3, true), part(2, false)}));  // the first part is the slowest
  EXPECT_FALSE(is_empty({part(3, false), part(2, true)}));
  EXPECT_TRUE(is_empty({part(3, true), part(2, true)}));
}

TEST(MergeShards, EachMetricIsMergedByItsRule) {
  using Values = std::map<std::string, double>;
  const auto part = [](double seconds, double audio, const Values& metrics) {
    ResultSet shard = shard_with({{"a", {0}}});
    auto& run = std::get<record::Run>(shard.cases.front().summary.rounds.front());
    run.total_seconds = seconds;
    run.dataset.audio_seconds = Number(audio);
    run.metrics.clear();
    for (const auto& [key, value] : metrics) run.metrics[key] = Number(value);
    return shard;
  };
  const record::Records records = merge_shards({part(4, 10,
                                                     {{"rtfx.total", 2.5},
                                                      {"share.decode", 0.25},
                                                      {"memory.peak_mib", 100},
                                                      {"tokens.per_second", 4},
                                                      {"energy.joules_per_hour", 40},
                                                      {"batch_ms.first", 7},
                                                      {"forgotten", 1}}),
                                                part(2, 30,
                                                     {{"rtfx.total", 15},
                                                      {"share.decode", 0.75},
                                                      {"memory.peak_mib", 300},
                                                      {"tokens.per_second", 8},
                                                      {"energy.joules_per_hour", 80},
                                                      {"batch_ms.first", 5},
                                                      {"forgotten", 2}})});
  Values merged;
  for (const auto& [key, value] : std::get<record::Run>(records.at(1)).metrics)
    merged[key] = static_cast<double>(*value);
  EXPECT_EQ(merged, (Values{{"rtfx.total", 10},        // 40 s of audio in 4 s
                            {"share.decode", 0.25},    // of the slowest shard
                            {"memory.peak_mib", 300},  // the greatest
                            {"tokens.per_second", 7},  // 280 tokens in 40 s
                            {"energy.joules_per_hour", 70}}));
}

TEST(MergeShards, TokensOfReferencesCountByTheAudioThatHasReferences) {
  using Value = std::optional<double>;
  const auto part = [](double audio, Value referenced, Value tokens) {
    ResultSet shard = shard_with({{"a", {0}}});
    auto& run = std::get<record::Run>(shard.cases.front().summary.rounds.front());
    run.dataset.audio_seconds = Number(audio);
    if (referenced) run.reference_seconds = Number(*referenced);
    run.metrics["tokens.reference_per_second"] =
        tokens ? Nullable<Number>(Number(*tokens)) : std::nullopt;
    return shard;
  };
  const auto merged = [](const ResultSet& a, const ResultSet& b) -> Value {
    const record::Records records = merge_shards({a, b});
    const auto value =
        std::get<record::Run>(records.at(1)).metrics.at("tokens.reference_per_second");
    return value ? Value(static_cast<double>(*value)) : std::nullopt;
  };
  EXPECT_EQ(merged(part(10, 10, 4), part(30, 10, 8)), 6);  // 120 tokens in 20 s
  EXPECT_EQ(merged(part(10, 0, {}), part(30, 10, 8)), 8);  // no reference in the first shard
  EXPECT_EQ(merged(part(10, 10, {}), part(30, 10, 8)), std::nullopt);  // tokens not known
  EXPECT_EQ(merged(part(10, {}, 4), part(30, 10, 8)), std::nullopt);   // of an earlier release
  EXPECT_EQ(merged(part(10, 0, {}), part(30, 0, {})), std::nullopt);
  const record::Records records = merge_shards({part(10, 0, {}), part(30, 10, 8)});
  EXPECT_EQ(static_cast<double>(*std::get<record::Run>(records.at(1)).reference_seconds), 10);
}

}  // namespace
}  // namespace rtfx
