// Tests of files that can be mapped and of files that cannot.
#include "base/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/phrases.h"
#include "tests/support/own_path.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, HoldsTheFileAsItWas) {
  const fs::path path = test::own_path("mapped_file");
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
  const test::OwnFolder own;
  const fs::path& folder = own.path();
  std::ofstream(folder / "empty");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  fs::create_symlink("loop", folder / "loop");
  for (const char* name : {"", "gone", "empty", "pipe", "loop"})
    EXPECT_THROW(MappedFile::open(folder / name), UserError) << name;
  EXPECT_THROW(MappedFile::open("/dev/null"), UserError);
}

/// Limits the size of all files to `bytes`, as a full disk does.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

using test::user_error;

class ByteOrderMark : public test::TempFolder {
 protected:
  static constexpr const char* kMark = "\xEF\xBB\xBF";
};

TEST_F(ByteOrderMark, IsNoPartOfTheText) {
  const fs::path file = write("joined.txt", std::string(kMark) + "a\r\n" + kMark + "b\n" + kMark);
  TextLines lines(file);
  std::vector<std::string> found;
  for (std::string_view line; lines.next(line);) found.emplace_back(line);
  EXPECT_EQ(found, (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(read_text(write("whole.txt", std::string(kMark) + "text")), "text");
  EXPECT_EQ(parse_json(std::string(kMark) + "[1]", "file"), nlohmann::json({1}));
  EXPECT_EQ(read_json_file(write("c.json", std::string(kMark) + "{\"a\": 1}")).at("a"), 1);
  EXPECT_EQ(read_phrases(write("p.txt", std::string(kMark) + "new york\t2\n")).front().text,
            "new york");
}

TEST_F(ByteOrderMark, TextIsUtf8) {
  const auto read = [&](const std::string& text, TextCheck check = TextCheck::utf8) {
    return user_error([&] {
      TextLines lines(write("t.txt", text), check);
      for (std::string_view line; lines.next(line);) {
      }
    });
  };
  EXPECT_EQ(read("a\nb\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\n"), "");
  // The texts are a byte of Latin-1, a cut character, an overlong form, a surrogate, and a code
  // point that is too large.
  for (const char* bad : {"caf\xE9", "x\xE2\x82", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_HAS(read(std::string("a\n") + bad + "\nc\n"), "t.txt:2: is not UTF-8: byte ");
    EXPECT_HAS(read(bad), "t.txt:1: is not UTF-8: byte ");
    EXPECT_EQ(read(bad, TextCheck::none), "");
  }
  EXPECT_HAS(read("caf\xE9"), "byte 4 is 0xe9; save it as UTF-8; `iconv -f LATIN1 -t UTF-8`");
}

TEST_F(ByteOrderMark, OfOtherEncodingsIsNamed) {
  for (const std::string& mark :
       {std::string("\xFF\xFE"), std::string("\xFE\xFF"), std::string("\0\0\xFE\xFF", 4)}) {
    const fs::path file = write("wide.txt", mark + std::string("a\0\n\0", 4));
    const auto first_line = [&] {
      TextLines lines(file);
      std::string_view line;
      lines.next(line);
    };
    for (const std::string& error : {user_error(first_line), user_error([&] { read_text(file); }),
                                     user_error([&] { read_json_file(file); })}) {
      EXPECT_HAS(error, "wide.txt: begins with the byte-order mark of UTF-16");
      EXPECT_HAS(error, "save it as UTF-8");
    }
  }
}

/// A link to itself gives an error other than absence, as a folder does that must not be entered.
class UnknownFile : public test::TempFolder {
 protected:
  UnknownFile() { fs::create_symlink("loop", path("loop")); }
};

TEST_F(UnknownFile, IsAUserError) {
  const std::string reason = "loop: cannot be opened: Too many levels of symbolic links";
  EXPECT_HAS(user_error([&] { TextLines lines(path("loop")); }), reason);
  EXPECT_HAS(user_error([&] { read_text(path("loop")); }), reason);
  EXPECT_EQ(plain_or_gzip(path("loop")), path("loop"));
  const nlohmann::json name = path("loop").string();
  EXPECT_HAS(user_error([&] { JsonView(name, "c.json#/lm").file(); }),
             "loop' cannot be opened: Too many levels of symbolic links");
}

TEST_F(UnknownFile, IsNoProgram) {
  const std::string before = std::getenv("PATH");
  setenv("PATH", path("").c_str(), 1);
  EXPECT_TRUE(find_program("loop", {}).empty());
  setenv("PATH", before.c_str(), 1);
}

class OutputFile : public test::TempFolder {
 protected:
  std::string read(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(OutputFile, IsReplacedWholeInAFolderThatIsMade) {
  write_file(path("new/file"), "first");
  write_file(path("new/file"), std::array<std::string_view, 2>{"sec", "ond"});
  EXPECT_EQ(read("new/file"), "second");
}

TEST_F(OutputFile, MayBeANameAloneInTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(path("here"));
  std::filesystem::current_path(path("here"));
  EXPECT_NO_THROW(write_file("new.txt", std::array{std::string_view("text")}));
  std::filesystem::current_path(before);
  EXPECT_EQ(read("here/new.txt"), "text");
}

TEST_F(OutputFile, StaysAsItWasWhenTheDiskIsFull) {
  write_file(path("file"), "before");
  const FileLimit limit(1000);
  const std::string error = user_error([&] { write_file(path("file"), std::string(5000, 'x')); });
  EXPECT_HAS(error, "file: cannot be written: File too large; free some space");
  EXPECT_EQ(read("file"), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1);
}

TEST_F(OutputFile, MayHaveTheLongestName) {
  const std::string longest(255, 'x');
  write_file(path(longest), "text");
  EXPECT_EQ(read(longest), "text");
  EXPECT_HAS(user_error([&] { write_file(path(longest + "x"), "text"); }),
             "cannot be written: File name too long");
}

TEST_F(OutputFile, LeavesThoseAloneThatOtherProcessesOfItsNumberWrite) {
  const auto other = [&](int n) { return path(fmt::format(".rtfx.{}.{}", getpid(), n)); };
  constexpr int kFiles = 1000;
  for (int n = 1; n <= kFiles; ++n) std::ofstream(other(n)) << "theirs";
  write_file(path("ours"), "ours");
  EXPECT_EQ(read("ours"), "ours");
  for (int n = 1; n <= kFiles; ++n) EXPECT_EQ(read(other(n).filename().string()), "theirs") << n;
}

TEST_F(OutputFile, FollowsALink) {
  write_file(path("file"), "before");
  std::filesystem::create_symlink("file", path("link"));
  write_file(path("link"), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read("file"), "after");
}

TEST_F(OutputFile, IsNoDevicePipeOrFolder) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_HAS(user_error([&] { write_file(path("pipe"), "x"); }), "is a device or pipe");
  EXPECT_HAS(user_error([] { write_file("/dev/null", "x"); }), "/dev/null: is a device");
  EXPECT_HAS(user_error([&] { write_file(path(""), "x"); }), "is a folder");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(OutputFile, PipesAreNotReadTwice) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  write_file(path("file"), "x");
  EXPECT_HAS(user_error([&] { require_rereadable(path("pipe")); }), "is a pipe or device");
  for (const char* name : {"file", "", "absent"}) EXPECT_NO_THROW(require_rereadable(path(name)));
}

}  // namespace
}  // namespace rtfx
