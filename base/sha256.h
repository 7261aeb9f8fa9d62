// Checksums of files and configurations (SHA-256, lower-case hex), through OpenSSL.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace rtfx {

std::string sha256(std::string_view bytes);
/// Throws UserError when the file cannot be read.
std::string sha256_file(const std::filesystem::path& path);

}  // namespace rtfx
