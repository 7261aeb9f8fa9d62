// Files that the program writes whole: graphs, language models, tables, pages.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace rtfx {

/// Throws UserError where `path` is something that is no regular file: a folder, a device, a pipe.
/// Links are followed.
void require_regular_or_new(const std::filesystem::path& path);

/// The file is there whole, with its parts one after the other, or as it was before: they are
/// written beside it under another name, which is then moved to `path`. Makes the folder. Throws
/// UserError where `path` is no regular file, the folder is not writable, or the disk is full.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
void write_file(const std::filesystem::path& path, std::string_view contents);

/// write(2) until all is written; returns errno, 0 when done.
int write_all(int descriptor, std::string_view bytes);

/// "cannot be written: <reason>", with the remedy that is right for a full disk or else.
[[noreturn]] void cannot_write(const std::filesystem::path& path, int error,
                               std::string_view when_full);

}  // namespace rtfx
