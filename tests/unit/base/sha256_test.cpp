#include "base/sha256.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/support/own_path.h"

namespace rtfx {
namespace {

TEST(Sha256Test, KnownDigests) {  // FIPS 180-4, examples
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, AFileLongerThanTheBufferHashesAsItsBytes) {
  const auto path = test::own_path("zeros.bin");
  const std::string bytes(200001, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(sha256_file(path), sha256(bytes));
}

TEST(Sha256Test, WhatCannotBeReadIsAUserError) {
  EXPECT_THROW(sha256_file("no/such/file"), UserError);
  EXPECT_THROW(sha256_file(std::filesystem::temp_directory_path()), UserError);
  EXPECT_THROW(sha256_file("/proc/self/mem"), UserError);  // opens, and its first byte is an error
}

}  // namespace
}  // namespace rtfx
