// Tests sound and damaged safetensors files, which are made here.
#include "models/formats/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "tests/support/own_path.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  fs::path write(const std::string& header, size_t data,
                 const std::string& name = "model.safetensors", uint64_t announced = 0) const {
    const uint64_t size = announced > 0 ? announced : header.size();
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    bytes += header;
    for (size_t i = 0; i < data; ++i) bytes += static_cast<char>(i % 4 == 3 ? 63 : 0);
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  static StateDict read(const fs::path& file) { return read_safetensors(MappedFile::open(file)); }

  std::string complaint(const std::string& header, size_t data = 16, uint64_t announced = 0) const {
    try {
      read(write(header, data, "model.safetensors", announced));
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }

  fs::path folder_ = test::own_path("safetensors");
};

constexpr const char* kTwo = R"({"__metadata__": {"format": "pt"},
  "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
  "b": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]}})";

TEST_F(Safetensors, TensorsAreThere) {
  const StateDict found = read(write(kTwo, 16));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(at::equal(found.at("a"), at::full({2}, 0.5f)));
  EXPECT_EQ(found.at("b").scalar_type(), at::kBFloat16);
  EXPECT_EQ(found.at("b").sizes(), at::IntArrayRef({2, 2}));
}

TEST_F(Safetensors, OffsetsThatLieAreErrors) {
  const auto one = [](const char* shape, const char* offsets, const char* dtype = "F32") {
    return fmt::format(R"({{"a": {{"dtype": "{}", "shape": {}, "data_offsets": {}}}}})", dtype,
                       shape, offsets);
  };
  EXPECT_EQ(complaint(one("[4]", "[0, 16]")), "none");
  EXPECT_NE(complaint(one("[4]", "[0, 12]")).find("do not fit"), std::string::npos);
  EXPECT_NE(complaint(one("[4]", "[16, 0]")).find("do not fit"), std::string::npos);
  EXPECT_NE(complaint(one("[8]", "[0, 32]")).find("beyond"), std::string::npos);
  EXPECT_NE(complaint(one("[3]", "[4, 16]")).find("gap"), std::string::npos);
  EXPECT_NE(complaint(one("[3]", "[0, 12]")).find("belong to no tensor"), std::string::npos);
  EXPECT_NE(complaint(one("[4611686018427387904, 4]", "[0, 16]")).find("absurd"),
            std::string::npos);
  EXPECT_NE(complaint(one("[-4]", "[0, 16]")).find("malformed"), std::string::npos);
  EXPECT_NE(complaint(one("[16]", "[0, 16]", "F8_E4M3")).find("F8_E4M3"), std::string::npos);
  EXPECT_NE(complaint(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                          "b": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]}})")
                .find("overlaps"),
            std::string::npos);
}

TEST_F(Safetensors, HeadersThatLieAreErrors) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 60, UINT64_MAX})
    EXPECT_NE(complaint(kTwo, 16, size).find("not a safetensors file"), std::string::npos) << size;
  EXPECT_NE(complaint("[1, 2]").find("no JSON object"), std::string::npos);
  EXPECT_NE(complaint("{\"a\": 1}").find("lacks dtype"), std::string::npos);
  EXPECT_NE(complaint("{not json").find("line 1, column 3"), std::string::npos);
  EXPECT_NE(complaint(R"({"a": 1, "a": 2})").find("twice"), std::string::npos);
  EXPECT_NE(complaint(std::string(100'000, '[')).find("nested"), std::string::npos);
}

TEST_F(Safetensors, ShardsAreReadByTheirIndex) {
  write(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 8, "one.safetensors");
  write(R"({"b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 4, "two.safetensors");
  const auto index = [&](const std::string& map) {
    std::ofstream(folder_ / "model.safetensors.index.json") << R"({"weight_map": )" << map << "}";
    std::vector<fs::path> files;
    return read_safetensors_folder(folder_, files).size() + 10 * files.size();
  };
  EXPECT_EQ(index(R"({"a": "one.safetensors", "b": "two.safetensors"})"), 32u);
  EXPECT_THROW(index(R"({"a": "one.safetensors", "c": "two.safetensors"})"), UserError);
  EXPECT_THROW(index(R"({"a": "../one.safetensors"})"), UserError);
  EXPECT_THROW(index(R"({"a": "gone.safetensors"})"), UserError);
  EXPECT_THROW(index("[]"), UserError);
}

}  // namespace
}  // namespace rtfx
