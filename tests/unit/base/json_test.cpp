// Tests of JSON that other people made.
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

TEST(ToText, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(to_text("caf\xE9"), "\"caf\xEF\xBF\xBD\"");
  EXPECT_EQ(to_text({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(to_line({{"a", 1}}), "{\"a\":1}\n");
}

TEST(TextInAnObject, IsEmptyWhereThereIsNoText) {
  const nlohmann::json object = {{"a", "b"}, {"null", nullptr}, {"one", 1}};
  EXPECT_EQ(text_in(object, "a"), "b");
  for (const char* key : {"null", "one", "absent"}) EXPECT_EQ(text_in(object, key), "") << key;
  EXPECT_EQ(text_in("a", "a"), "");
}

TEST(JsonFile, DepthIsLimited) {
  for (const size_t depth : {102, 10'000, 1'000'000}) {
    EXPECT_NE(complaint(std::string(depth, '[')).find("100 levels"), std::string::npos) << depth;
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    EXPECT_NE(complaint(objects).find("100 levels"), std::string::npos) << depth;
  }
}

}  // namespace
}  // namespace rtfx
