// Tests archives that are made here: which members are views, and what is refused.
#include "models/formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/mutations/mutate.h"

namespace rtfx {
namespace {

struct Member {
  std::string name, bytes, link = {};
};

/// Returns an archive of `members` in memory.
std::string packed(const std::vector<Member>& members, bool gzip = false, bool zip = false,
                   size_t room = 1 << 22) {
  std::string bytes(room, '\0');
  size_t used = 0;
  archive* writer = archive_write_new();
  if (zip) {
    archive_write_set_format_zip(writer);
    archive_write_zip_set_compression_store(writer);
  } else {
    archive_write_set_format_gnutar(writer);
  }
  if (gzip) archive_write_add_filter_gzip(writer);
  archive_write_open_memory(writer, bytes.data(), bytes.size(), &used);
  for (const Member& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_filetype(entry, member.link.empty() ? AE_IFREG : AE_IFLNK);
    if (!member.link.empty()) archive_entry_set_symlink(entry, member.link.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(member.bytes.size()));
    archive_write_header(writer, entry);
    archive_write_data(writer, member.bytes.data(), member.bytes.size());
    archive_entry_free(entry);
  }
  archive_write_free(writer);
  bytes.resize(used);
  return bytes;
}

std::map<std::string, ArchiveMember> read(const std::string& archive,
                                          ArchiveFormat format = ArchiveFormat::tar) {
  return read_archive(archive, format, "file", [](const std::string&) { return true; });
}

std::string complaint(const std::string& archive) {
  try {
    read(archive);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(Archive, MembersOfPlainOnesAreViews) {
  const std::vector<Member> members = {{"./a.txt", "first"},
                                       {"folder/b", std::string(70'000, 'b')}};
  for (const auto format : {ArchiveFormat::tar, ArchiveFormat::zip}) {
    const std::string archive = packed(members, false, format == ArchiveFormat::zip);
    const auto found = read(archive, format);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found.at("a.txt").bytes, "first");
    EXPECT_EQ(found.at("folder/b").bytes, members[1].bytes);
    for (const auto& [name, member] : found) {
      EXPECT_EQ(member.unpacked, nullptr) << name;
      EXPECT_GE(member.bytes.data(), archive.data());
      EXPECT_LE(member.bytes.data() + member.bytes.size(), archive.data() + archive.size());
    }
  }
}

TEST(Archive, MembersOfGzipOnesAreUnpacked) {
  std::string bytes;
  for (unsigned i = 0; i < 300'000; ++i) bytes += static_cast<char>(i * 7919 >> 3);
  const auto found = read(packed({{"w", bytes}, {"x", "y"}}, true));
  EXPECT_EQ(found.at("w").bytes, bytes);
  EXPECT_EQ(found.at("w").bytes.data(), found.at("w").unpacked->data());
  EXPECT_EQ(found.at("x").bytes, "y");
}

TEST(Archive, NothingLeadsOutOfIt) {
  EXPECT_NE(complaint(packed({{"../evil", "x"}})).find("'../evil' would lie outside"),
            std::string::npos);
  EXPECT_NE(complaint(packed({{"a/../../evil", "x"}})).find("outside"), std::string::npos);
  EXPECT_NE(complaint(packed({{"/etc/passwd", "x"}})).find("outside"), std::string::npos);
  EXPECT_NE(complaint(packed({{"model_weights.ckpt", "", "/etc/passwd"}})).find("is a link"),
            std::string::npos);
}

TEST(Archive, BombsAreRefused) {
  const std::string zeros(200 << 20, '\0');
  const std::string archive = packed({{"model_weights.ckpt", zeros}}, true);
  EXPECT_LT(archive.size(), 1u << 20);
  EXPECT_NE(complaint(archive).find("expands to more than 64 times"), std::string::npos);
  // This also holds where nobody wants the member.
  EXPECT_THROW(
      read_archive(archive, ArchiveFormat::tar, "file", [](const std::string&) { return false; }),
      UserError);
}

TEST(Archive, TruncationAndForeignBytesAreErrors) {
  const std::string archive =
      packed({{"a", std::string(5000, 'a')}, {"b", std::string(5000, 'b')}});
  for (const size_t size : {1, 100, 511, 600, 3000, 5700, 9000})
    EXPECT_THROW(read(archive.substr(0, size)), UserError) << size;
  EXPECT_THROW(read(std::string(4096, 'x')), UserError);
  const std::string zip = packed({{"a", "b"}}, false, true);
  EXPECT_THROW(read(zip.substr(0, zip.size() - 30), ArchiveFormat::zip), UserError);
  std::string header = archive;
  header[10] = 'z';  // its checksum is wrong now
  EXPECT_NE(complaint(header), "none");
}

/// The archive has 1 KiB, and its header says 6 GiB. No memory may be taken before the bytes are
/// there.
TEST(Archive, AnAnnouncedSizeTakesNoMemory) {
  std::string bytes = packed({{"model_weights.ckpt", "x"}}).substr(0, 1024);
  bytes.replace(124, 11, "60000000000");  // octal
  bytes.replace(148, 8, std::string(8, ' '));
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
  bytes.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  const PeakMemory peak;
  EXPECT_NE(complaint(bytes).find("not a readable archive"), std::string::npos) << complaint(bytes);
  EXPECT_LT(peak.mib(), 100);
}

}  // namespace
}  // namespace rtfx
