// Tests phrases as options, manifests and files write them, and the complaints about bad ones.
#include "base/phrases.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class Phrases : public TempFolder {
 protected:
  static std::vector<Phrase> parse(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    return parse_phrases(JsonView(json, "m.jsonl:3/boost"));
  }
  std::vector<Phrase> read(const std::string& text) {
    std::ofstream(path("p.txt")) << text;
    return read_phrases(path("p.txt"));
  }
};

TEST_F(Phrases, OfOptionsAndManifests) {
  const auto phrases = parse(R"(["new  york ", {"phrase": "ab", "weight": 2.5}, {"phrase": "c"}])");
  const std::vector<Phrase> expected = {{"new york", 0, "m.jsonl:3/boost/0"},
                                        {"ab", 2.5, "m.jsonl:3/boost/1"},
                                        {"c", 0, "m.jsonl:3/boost/2"}};
  EXPECT_EQ(phrases, expected);
  EXPECT_EQ(to_json(phrases).dump(), R"(["new york",{"phrase":"ab","weight":2.5},"c"])");
  EXPECT_EQ(parse(R"("one alone")").size(), 1);
  EXPECT_TRUE(parse("[]").empty());
}

TEST_F(Phrases, OfFiles) {
  const auto phrases = read("route 66\n\n  new york\t 2.5 \r\nx\n");
  ASSERT_EQ(phrases.size(), 3);
  EXPECT_EQ(phrases[0], (Phrase{"route 66", 0, path("p.txt").string() + ":1"}));
  EXPECT_EQ(phrases[1], (Phrase{"new york", 2.5, path("p.txt").string() + ":3"}));
}

TEST_F(Phrases, FaultsNamePlaceAndPhrase) {
  const auto fault = [](const std::string& text) { return user_error([&] { parse(text); }); };
  EXPECT_HAS(fault(R"(["a", "  "])"), "m.jsonl:3/boost/1: the phrase is empty");
  EXPECT_HAS(fault(R"([7])"), "m.jsonl:3/boost/0: 7 is not allowed");
  EXPECT_HAS(fault(R"([{"phrase": "a b", "weight": -1}])"),
             "m.jsonl:3/boost/0/weight: the weight of 'a b' is -1; it must be a number above 0");
  EXPECT_HAS(fault(R"([{"phrase": "a b", "weight": "2"}])"), "the weight of 'a b' is \"2\"");
  EXPECT_HAS(fault(R"([{"phrase": "a", "wieght": 2}])"), "did you mean 'weight'?");
  EXPECT_HAS(fault(R"([{"weight": 2}])"), "phrase");
  for (const char* weight : {"-2", "nan", "inf", "0", "two", "1 2", "", "1e9"}) {
    const std::string found = user_error([&] { read(std::string("a\nb c\t") + weight); });
    EXPECT_HAS(found, path("p.txt").string() + ":2: the weight of 'b c' is '" + weight + "'");
  }
  EXPECT_HAS(user_error([&] { read("\t3\n"); }), ":1: the phrase is empty");
  EXPECT_HAS(user_error([&] { read("a\ncaf\xe9\n"); }),
             "p.txt:2: is not UTF-8: byte 4 is 0xe9; save it as UTF-8");
  const nlohmann::json bytes = {"caf\xe9"};  // as from a command line
  EXPECT_HAS(user_error([&] { parse_phrases(JsonView(bytes, "--decoder")); }),
             "--decoder/0: is not UTF-8: byte 4 is 0xe9");
  EXPECT_HAS(user_error([&] { read_phrases(path("none.txt")); }), "none.txt");
}

}  // namespace
}  // namespace rtfx
