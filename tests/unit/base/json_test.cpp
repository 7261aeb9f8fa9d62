// JSON that other people made.
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_events.h"

namespace rtfx {
namespace {

std::string complaint(const std::string& text) {
  try {
    parse_json(text, "file");
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(JsonFile, IsReadWithItsNesting) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": null}], "c": {"a": 2}})", "file").at("c").at("a"), 2);
  EXPECT_EQ(complaint(std::string(100, '[') + std::string(100, ']')), "none");
}

TEST(JsonFile, ErrorsNameThePlace) {
  EXPECT_NE(complaint("{\n  \"a\": 1,\n  \"b\" 2\n}").find("line 3, column 7"), std::string::npos);
  EXPECT_NE(complaint("").find("line 1, column 1"), std::string::npos);
  EXPECT_NE(complaint(R"({"a": {"k": 1, "k": 2}})").find("'k' twice"), std::string::npos);
  EXPECT_NE(complaint("[1e999]").find("too large"), std::string::npos);
}

TEST(JsonFile, DepthIsLimited) {
  for (const size_t depth : {102, 10'000, 1'000'000}) {
    EXPECT_NE(complaint(std::string(depth, '[')).find("100 levels"), std::string::npos) << depth;
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    EXPECT_NE(complaint(objects).find("100 levels"), std::string::npos) << depth;
  }
}

/// Builds the value that it is told.
class TreeBuilder {
 public:
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return value <= 0 && put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value) { return put(value); }
  bool string(std::string_view value) { return put(std::string(value)); }
  bool start_object() { return open(nlohmann::json::object()); }
  bool key(std::string_view name) {
    names_.back() = name;
    return true;
  }
  bool end_object() { return close(); }
  bool start_array() { return open(nlohmann::json::array()); }
  bool end_array() { return close(); }

  nlohmann::json whole;

 private:
  bool open(nlohmann::json container) {
    open_.push_back(std::move(container));
    names_.emplace_back();
    return true;
  }
  bool close() {
    nlohmann::json done = std::move(open_.back());
    open_.pop_back();
    names_.pop_back();
    return put(std::move(done));
  }
  bool put(nlohmann::json value) {
    if (open_.empty()) {
      whole = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back()[names_.back()] = std::move(value);
    }
    return true;
  }

  std::vector<nlohmann::json> open_;
  std::vector<std::string> names_;
};

/// The value that the events tell; discarded where they stop.
nlohmann::json told(std::string_view text) {
  TreeBuilder builder;
  return JsonEvents(text, builder).run() ? std::move(builder.whole)
                                         : nlohmann::json(nlohmann::json::value_t::discarded);
}

TEST(JsonEvents, TellWhatTheParserFinds) {
  for (const char* text : {"{}",
                           "[]",
                           " [ 1 , -2 ,3]\r\n",
                           R"({"a": {"b": [null, true, false]}, "": "x"})",
                           "0",
                           "-0",
                           "-0.0",
                           "18446744073709551615",
                           "-9223372036854775808",
                           "1e3",
                           "2.5E-3",
                           "0.1e+2",
                           "1.7976931348623157e308",
                           "5e-324",
                           "0.30000000000000004",
                           R"("")",
                           R"("caf\u00e9 \"\\\n")",
                           "\"caf\xC3\xA9\"",
                           R"({"k\u0041": "\ud83d\ude00"})",
                           "[[[[]], {}]]"}) {
    const nlohmann::json found = told(text), expected = nlohmann::json::parse(text);
    EXPECT_EQ(found, expected) << text;
    EXPECT_EQ(found.type(), expected.type()) << text;
    EXPECT_EQ(found.dump(), expected.dump()) << text;
  }
}

TEST(JsonEvents, StopAtWhatTheParserRefuses) {
  for (const std::string& text : std::vector<std::string>{"",
                                                          " ",
                                                          "{",
                                                          "}",
                                                          "[1,]",
                                                          "[,1]",
                                                          "[1 2]",
                                                          "{\"a\"}",
                                                          "{\"a\":}",
                                                          "{\"a\":1,}",
                                                          "{a:1}",
                                                          "{\"a\" 1}",
                                                          "01",
                                                          "-",
                                                          "+1",
                                                          ".5",
                                                          "1.",
                                                          "1e",
                                                          "1e+",
                                                          "--1",
                                                          "0x1",
                                                          "NaN",
                                                          "Infinity",
                                                          "tr",
                                                          "nullx",
                                                          "true false",
                                                          "\"",
                                                          "\"a",
                                                          "\"\\\"",
                                                          "\"\\x\"",
                                                          "\"\\u12\"",
                                                          "\"\\ud800\"",
                                                          "\"\n\"",
                                                          "\"\xE9\"",
                                                          "\"\xC0\xAF\"",
                                                          std::string("\"\0\"", 3),
                                                          "[1]]",
                                                          "1 // one",
                                                          "1e999",
                                                          "\xEF\xBB\xBF{}"}) {
    EXPECT_TRUE(told(text).is_discarded()) << text;
  }
  // The parser takes these, and callers ask it then.
  EXPECT_TRUE(told("18446744073709551616").is_discarded());
  EXPECT_TRUE(told(std::string(101, '[') + std::string(101, ']')).is_discarded());
  EXPECT_FALSE(told(std::string(100, '[') + std::string(100, ']')).is_discarded());
}

}  // namespace
}  // namespace rtfx
