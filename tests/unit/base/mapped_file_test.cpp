// Files that can be mapped and files that cannot.
#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, HoldsTheFileAsItWas) {
  const fs::path path = fs::path(testing::TempDir()) / "rtfx_mapped_file";
  std::ofstream(path) << "contents";
  const auto file = MappedFile::open(path);
  fs::remove(path);
  EXPECT_EQ(file->bytes(), "contents");
  EXPECT_TRUE(file->holds(file->bytes().data() + 7));
  EXPECT_FALSE(file->holds(file->bytes().data() + 8));
  file->fetch(file->bytes());
  file->release(file->bytes());
  EXPECT_EQ(file->bytes(), "contents");
}

TEST(MappedFile, WhatIsNoFileIsAnError) {
  const fs::path folder = fs::path(testing::TempDir()) / "rtfx_mapped_files";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "empty");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  fs::create_symlink("loop", folder / "loop");
  for (const char* name : {"", "gone", "empty", "pipe", "loop"})
    EXPECT_THROW(MappedFile::open(folder / name), UserError) << name;
  EXPECT_THROW(MappedFile::open("/dev/null"), UserError);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace rtfx
