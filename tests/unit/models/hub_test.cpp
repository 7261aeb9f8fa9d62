#include "models/formats/hub.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/support/own_path.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

/// A cache as `hf download` leaves it, in a folder of the test.
class Hub : public testing::Test {
 protected:
  Hub() {
    fs::remove_all(root_);
    setenv("HF_HUB_CACHE", root_.c_str(), 1);
  }
  ~Hub() override {
    unsetenv("HF_HUB_CACHE");
    fs::remove_all(root_);
  }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  fs::path downloaded(const std::string& model, const std::string& file) const {
    write(root_ / model / "refs" / "main", "0123abc");
    const fs::path folder = root_ / model / "snapshots" / "0123abc";
    write(folder / file, "?");
    return folder;
  }

  const fs::path root_ = test::own_path("hub");
};

std::string error_of(const std::string& given) {
  try {
    find_checkpoint(given);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Hub, FindsTheArchiveOfADownloadedModel) {
  const fs::path folder = downloaded("models--nvidia--some-0.6b-v2", "some-0.6b-v2.nemo");
  write(folder / "config.json", "{}");
  EXPECT_EQ(find_checkpoint("nvidia/some-0.6b-v2"), folder / "some-0.6b-v2.nemo");
  EXPECT_EQ(find_checkpoint("https://huggingface.co/nvidia/some-0.6b-v2"),
            folder / "some-0.6b-v2.nemo");
  EXPECT_EQ(find_checkpoint("https://huggingface.co/nvidia/some-0.6b-v2/tree/main?x=1"),
            folder / "some-0.6b-v2.nemo");
}

TEST_F(Hub, FindsTheFolderOfAModelWithoutArchive) {
  const fs::path folder = downloaded("models--a--b", "config.json");
  EXPECT_EQ(find_checkpoint("a/b"), folder);
}

TEST_F(Hub, SaysHowToGetWhatIsNotThere) {
  EXPECT_EQ(error_of("nvidia/parakeet-tdt-0.6b-v2"),
            "nvidia/parakeet-tdt-0.6b-v2: this model of huggingface.co is not on this machine; get "
            "it with 'hf download nvidia/parakeet-tdt-0.6b-v2' (pip install huggingface_hub)");
  // The files of this revision are gone.
  write(root_ / "models--a--b" / "refs" / "main", "4567");
  EXPECT_NE(error_of("a/b").find("'hf download a/b'"), std::string::npos);
}

TEST_F(Hub, RefusesToChooseAmongArchives) {
  downloaded("models--a--b", "one.nemo");
  downloaded("models--a--b", "two.nemo");
  EXPECT_NE(error_of("a/b").find("holds 2 .nemo files; give the path of one of them"),
            std::string::npos);
}

TEST_F(Hub, FindsTheArchiveOfAFolder) {
  write(root_ / "local" / "x.nemo", "?");
  EXPECT_EQ(find_checkpoint(root_ / "local"), root_ / "local" / "x.nemo");
  write(root_ / "local" / "config.json", "{}");
  EXPECT_EQ(find_checkpoint(root_ / "local"), root_ / "local");
}

TEST_F(Hub, SaysThatADownloadIsIncomplete) {
  const std::string expected =
      "a/b: the download of this model is incomplete; run 'hf download a/b' again";
  const fs::path folder = downloaded("models--a--b", "README.md");
  EXPECT_EQ(error_of("a/b"), expected);
  write(folder / "config.json", "{}");
  EXPECT_EQ(find_checkpoint("a/b"), folder);
  fs::create_symlink("../../blobs/gone", folder / "model.safetensors");
  EXPECT_EQ(error_of("a/b"), expected);
  fs::remove(folder / "config.json");
  fs::create_symlink("../../blobs/gone", folder / "b.nemo");
  EXPECT_EQ(error_of("a/b"), expected);
}

TEST_F(Hub, NamesWhatCannotBeLookedAt) {
  fs::create_directories(root_);
  fs::create_symlink("loop", root_ / "loop");
  for (const fs::path& bad : {root_ / "loop", root_ / "loop" / "x", root_ / std::string(300, 'x')})
    EXPECT_NE(error_of(bad.string()).find(": cannot be opened: "), std::string::npos) << bad;
}

TEST_F(Hub, ALongTextIsNoName) {
  const std::string many(size_t{1} << 20, 'a');
  for (const std::string& given : {many + "/b", "a/" + many, "https://huggingface.co/a/" + many,
                                   "https://huggingface.co/a/b?" + many}) {
    EXPECT_EQ(hub_name(given), std::nullopt);
    EXPECT_NE(error_of(given).find(": cannot be opened: "), std::string::npos);
  }
  EXPECT_EQ(hub_name("https://huggingface.co/a/b?" + std::string(500, 'c')), "a/b");
}

TEST_F(Hub, LeavesOtherPathsToTheirReader) {
  for (const char* path : {"x.nemo", "a/x.nemo", "/a/b", "a/b/c", "./a", "../a", ""})
    EXPECT_EQ(find_checkpoint(path), path);
  write(root_ / "there" / "x", "?");
  const fs::path missing = root_ / "there" / "missing";
  EXPECT_EQ(find_checkpoint(missing), missing);
}

}  // namespace
}  // namespace rtfx
