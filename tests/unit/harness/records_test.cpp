#include "harness/results/records.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "harness/results/journal.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::user_error;

json energy() {
  return {{"watts", 300}, {"updates", 12}, {"seconds", 5.0}, {"passes", 2}, {"audio_seconds", 1.5}};
}

/// Returns the records of every journal below reports/ with their files. Lines of transcripts are
/// left out.
std::vector<std::pair<std::string, json>> committed_records() {
  std::vector<std::pair<std::string, json>> records;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("reports")) {
    if (!entry.path().string().ends_with(".jsonl.gz")) continue;
    std::istringstream text(read_text(entry.path()));
    for (std::string line; std::getline(text, line);) {
      json object = parse_json(line, entry.path().string());
      if (object.contains("kind")) records.emplace_back(entry.path(), std::move(object));
    }
  }
  return records;
}

TEST(RecordsTest, EveryCommittedRecordIsWrittenAsItWasRead) {
  std::map<std::string, int> records;
  for (const auto& [file, object] : committed_records()) {
    record::check_record(object, file);
    const record::Any read = record::read(object);
    ++records[object.value("kind", "")];
    ASSERT_EQ(record::write(read).dump(), object.dump()) << file;
  }
  for (const record::Kind& kind : record::kinds()) EXPECT_GT(records[kind.name], 0) << kind.name;
}

TEST(RecordsTest, TablesKnowEveryFieldOfTheNewestRuns) {
  int runs = 0;
  for (const auto& [file, object] : committed_records()) {
    const record::Any any = record::read(object);
    const auto* run = std::get_if<record::Run>(&any);
    if (run == nullptr || !run->cpu_seconds) continue;
    ++runs;
    ASSERT_FALSE(run->other) << file << *run->other;
    ASSERT_TRUE(!run->wer.other && !run->decoder.other) << file;
    ASSERT_TRUE(!run->exactness || !run->exactness->other) << file;
    ASSERT_TRUE(!run->device_memory || !run->device_memory->other) << file;
  }
  EXPECT_GT(runs, 1000);
}

TEST(RecordsTest, AbsentNullAndValueStayDistinct) {
  for (const json& rate : {json(), json(0.5), json(1)}) {
    json object = {{"precision", rate}};
    const record::Boosted read = record::Boosted::table().read(object);
    EXPECT_FALSE(read.recall);
    ASSERT_TRUE(read.precision);
    EXPECT_EQ(read.precision->has_value(), !rate.is_null());
    EXPECT_EQ(known(read.precision) == nullptr, rate.is_null());
    EXPECT_EQ(record::write(read).dump(), object.dump());
  }
}

TEST(RecordsTest, IntegersStayIntegersAndUnlistedMembersAreKept) {
  json object = energy();
  object["of_another_release"] = {{"a", nullptr}};
  const record::Energy read = record::Energy::table().read(object);
  EXPECT_EQ(read.watts, 300.0);
  EXPECT_EQ(*read.other, json({{"of_another_release", {{"a", nullptr}}}}));
  EXPECT_EQ(record::write(read).dump(), object.dump());
}

TEST(RecordsTest, TextIsReadAndWrittenAsJsonIs) {
  SharedTrees trees;
  for (const auto& [file, object] : committed_records()) {
    const std::string line = to_line(object);
    const record::Any read = record::read_line({line.data(), line.size() - 1}, file, trees);
    ASSERT_EQ(record::to_line(read), line) << file;
    ASSERT_EQ(record::write(read), object) << file;
  }
}

TEST(RecordsTest, UsualLinesNeedNoSecondLook) {
  SharedTrees trees;
  int records = 0, slow = 0;
  for (const auto& [file, object] : committed_records()) {
    const record::Kind* kind = record::find_kind(object.value("kind", ""));
    ASSERT_NE(kind, nullptr);
    record::Any record;
    slow += read_object(object.dump(), kind->table(), kind->make(record), trees) ? 0 : 1;
    ++records;
  }
  EXPECT_EQ(slow, 0) << records;
}

TEST(RecordsTest, LinesThatTablesRefuseAreNamedAsJsonIs) {
  SharedTrees trees;
  const auto problem = [&](const std::string& line) {
    return user_error([&] { record::read_line(line, "j:1", trees); });
  };
  EXPECT_HAS(problem(R"({"kind":"summary","case":1})"), "j:1: 'case' is 1; it must be text");
  EXPECT_HAS(problem(R"({"kind":"summary","kind":"summary"})"), "holds the key 'kind' twice");
  EXPECT_HAS(problem(R"({"kind":"summary","x":1,"x":2})"), "holds the key 'x' twice");
  EXPECT_HAS(problem(R"({"kind":"summary","rounds":1e999})"), "1e999', which is too large");
  EXPECT_HAS(problem(R"([{"kind":"summary"}])"), "not a JSON object");
  EXPECT_HAS(problem(R"({"kind":"summary"} x)"), "not JSON");
  EXPECT_HAS(problem(R"("a" "kind":"run")"), "not JSON");
  EXPECT_HAS(problem(R"("kind")"), "not a JSON object");
  EXPECT_HAS(problem(R"({"kind":"provenance","round":"1"})"), "'round' is \"1\"");
  EXPECT_HAS(problem(std::string(200, '[')), "nested more than 100 levels");
  const auto deep = [](size_t lists) {
    return R"({"kind":"profile","a":)" + std::string(lists, '[') + std::string(lists, ']') + "}";
  };
  EXPECT_HAS(problem(deep(101)), "nested more than 100 levels");
  EXPECT_HAS(problem(deep(100)), "'case' is missing");
  EXPECT_HAS(problem(deep(1)), "'case' is missing");
}

TEST(RecordsTest, OptionsOfManyRecordsAreHeldOnce) {
  SharedTrees trees;
  const auto read = [&](const char* line) {
    return std::get<record::Provenance>(record::read_line(line, "j:1", trees));
  };
  const auto a = read(R"({"kind":"provenance","config":{"a":[1,{"b":2}]}})");
  const auto b = read(R"({"kind":"provenance","config":{"a":[1,{"b":2}]}})");
  const auto c = read(R"({"kind":"provenance","config":{"a":[1,{"b":3}]}})");
  EXPECT_EQ(&a.config->value(), &b.config->value());
  EXPECT_NE(&a.config->value(), &c.config->value());
  EXPECT_EQ(c.config->value(), json({{"a", {1, {{"b", 3}}}}}));
}

TEST(RecordsTest, TheFirstWrongFieldIsNamedWithItsPlace) {
  const auto problem = [](const char* pointer, const json& value) {
    json object = {{"kind", "roofline"}, {"limits", {{"bytes_per_second", 1}}}};
    object[json::json_pointer(pointer)] = value;
    return user_error([&] { check_object(object, record::Roofline::table().info(), "j:1"); });
  };
  EXPECT_HAS(problem("/schema", "one"),
             "j:1: 'schema' is \"one\"; it must be an integer; the journal");
  EXPECT_HAS(problem("/profiled", 1), "'profiled' is 1; it must be true or false");
  EXPECT_HAS(problem("/case", 1), "'case' is 1; it must be text");
  EXPECT_HAS(problem("/case", "c"), "'result_key' is missing; add it");
}

TEST(RecordsTest, RulesOfElementsAndOfNamedMembers) {
  json object = {{"audio_seconds", {1.5, 0}}, {"total_seconds", {1}}, {"decode_seconds", {1}}};
  EXPECT_HAS(user_error([&] { check_object(object, record::Batches::table().info(), "j:1"); }),
             "'audio_seconds/1' is 0; it must be a number above 0");
  object = {{"kind", "provenance"}, {"config", {{"protocol", {{"cv_max", "x"}}}}}};
  EXPECT_HAS(user_error([&] { record::check_record(object, "j:1"); }),
             "'config/protocol/cv_max' is \"x\"; it must be a number");
}

}  // namespace
}  // namespace rtfx
