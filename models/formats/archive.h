// Reads members of a tar or zip archive that is in memory, through libarchive.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace rtfx {

enum class ArchiveFormat {
  tar,  // plain or gzip
  zip,
};

struct ArchiveMember {
  std::string_view bytes;                       // part of the archive, or else of `unpacked`
  std::shared_ptr<const std::string> unpacked;  // null where the archive has the bytes as they are
};

/// Returns the members for which `wanted(name)` holds, by name. The name is the path without a
/// leading "./". `archive` must outlive the result, and `where` names it in errors. Nothing is
/// written anywhere.
///
/// Throws UserError for a file that is no archive of the format, truncated or damaged. Throws for a
/// member that is a link, or whose path is absolute or holds "..". Also throws where a compressed
/// archive expands to more than 64 times its size, which weights never do.
std::map<std::string, ArchiveMember> read_archive(
    std::string_view archive, ArchiveFormat format, const std::string& where,
    const std::function<bool(const std::string&)>& wanted);

}  // namespace rtfx
