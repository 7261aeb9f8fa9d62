#include "models/formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr const char* kCopyAgain = "download or copy the file again";
constexpr size_t kMostExpansion = 64;

class Reader {
 public:
  Reader(std::string_view archive, ArchiveFormat format, const std::string& where)
      : archive_(archive), where_(where), reader_(archive_read_new(), &archive_read_free) {
    if (format == ArchiveFormat::tar) {
      archive_read_support_filter_gzip(reader_.get());
      archive_read_support_format_tar(reader_.get());
    } else {
      // Only the central directory lists the members of a zip file. A truncated file has none.
      archive_read_support_format_zip_seekable(reader_.get());
      archive_read_set_options(reader_.get(), "zip:ignorecrc32");  // a third of the time
    }
    if (archive_read_open_memory(reader_.get(), archive.data(), archive.size()) != ARCHIVE_OK)
      throw failure();
  }

  /// Moves to the next member. Returns false after the last one.
  bool next() {
    const int status = archive_read_next_header(reader_.get(), &entry_);
    if (status == ARCHIVE_EOF) return false;
    if (status < ARCHIVE_WARN) throw failure();
    const char* const path = archive_entry_pathname(entry_);
    if (path == nullptr) throw UserError(where_, "holds a member without a name", kCopyAgain);
    name_ = path;
    while (name_.starts_with("./")) name_.erase(0, 2);
    check_name();
    return true;
  }

  const std::string& name() const { return name_; }
  bool is_file() const { return archive_entry_filetype(entry_) == AE_IFREG; }

  /// Returns the member's bytes. An unwanted member is skipped.
  ArchiveMember read(bool wanted) {
    if (!wanted && !is_compressed()) return {};
    std::string_view view;
    auto unpacked = std::make_shared<std::string>();
    size_t filled = 0;
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    int status = ARCHIVE_OK;
    while ((status = archive_read_data_block(reader_.get(), &data, &size, &offset)) == ARCHIVE_OK) {
      if (size == 0) continue;
      if (offset != static_cast<la_int64_t>(filled)) {
        throw UserError(where_, fmt::format("'{}' is sparse", name_), "pack the archive again");
      }
      const std::string_view block(static_cast<const char*>(data), size);
      check_expansion(size);
      const bool in_place = holds(block) && unpacked->empty() &&
                            (view.empty() || view.data() + view.size() == block.data());
      if (wanted && in_place) {
        view = {view.empty() ? block.data() : view.data(), filled + size};
      } else if (wanted) {
        if (unpacked->empty()) unpacked->assign(view);
        unpacked->append(block);
      }
      filled += size;
    }
    if (status != ARCHIVE_EOF) throw failure();
    const auto announced = static_cast<size_t>(archive_entry_size(entry_));
    if (filled != announced) {
      throw UserError(where_,
                      fmt::format("'{}' is truncated: {} of {} bytes", name_, filled, announced),
                      kCopyAgain);
    }
    if (unpacked->empty()) return {view, nullptr};
    return {*unpacked, unpacked};
  }

 private:
  UserError failure() const {
    // libarchive has no error text for some damaged headers.
    const char* const text = archive_error_string(reader_.get());
    return {where_, fmt::format("not a readable archive ({})", text ? text : "damaged header"),
            kCopyAgain};
  }

  void check_name() const {
    const std::filesystem::path path(name_);
    const bool outside = path.is_absolute() || std::ranges::find(path, "..") != path.end();
    if (outside) {
      throw UserError(where_, fmt::format("member '{}' would lie outside of the archive", name_),
                      "do not trust this file");
    }
    const bool link =
        archive_entry_hardlink(entry_) != nullptr || archive_entry_symlink(entry_) != nullptr;
    if (link) {
      throw UserError(where_, fmt::format("member '{}' is a link", name_),
                      "pack the files themselves");
    }
  }

  void check_expansion(size_t size) {
    constexpr size_t kAlways = size_t{64} << 20;
    expanded_ += size;
    if (is_compressed() && expanded_ > std::max(kAlways, kMostExpansion * archive_.size())) {
      throw UserError(where_, fmt::format("expands to more than {} times its size", kMostExpansion),
                      "this is no checkpoint");
    }
  }

  bool is_compressed() const {
    return archive_filter_code(reader_.get(), 0) != ARCHIVE_FILTER_NONE ||
           archive_format(reader_.get()) == ARCHIVE_FORMAT_ZIP;
  }

  bool holds(std::string_view block) const {
    return block.data() >= archive_.data() &&
           block.data() + block.size() <= archive_.data() + archive_.size();
  }

  std::string_view archive_;
  std::string where_, name_;
  std::unique_ptr<archive, decltype(&archive_read_free)> reader_;
  archive_entry* entry_ = nullptr;
  size_t expanded_ = 0;
};

}  // namespace

std::map<std::string, ArchiveMember> read_archive(
    std::string_view archive, ArchiveFormat format, const std::string& where,
    const std::function<bool(const std::string&)>& wanted) {
  std::map<std::string, ArchiveMember> members;
  Reader reader(archive, format, where);
  while (reader.next()) {
    const bool keep = reader.is_file() && wanted(reader.name());
    ArchiveMember member = reader.read(keep);
    if (keep) members[reader.name()] = std::move(member);
  }
  return members;
}

}  // namespace rtfx
