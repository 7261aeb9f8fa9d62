#include "models/checkpoint/checkpoint.h"

#include "base/sha256.h"

namespace rtfx {

const std::string& Checkpoint::sha256() const {
  if (!checksum.empty()) return checksum;
  if (files.size() == 1) return checksum = sha256_file(files.front());
  std::string all;
  for (const auto& file : files) all += file.filename().string() + " " + sha256_file(file) + "\n";
  return checksum = rtfx::sha256(all);
}

}  // namespace rtfx
