#include "models/checkpoint.h"

#include "base/error.h"
#include "base/sha256.h"
#include "models/contexts.h"
#include "models/formats/hugging_face.h"
#include "models/formats/nemo.h"

namespace rtfx {

Checkpoint Checkpoint::load(const std::filesystem::path& path,
                            const std::vector<int64_t>& att_context_size) {
  Checkpoint checkpoint =
      std::filesystem::is_directory(path) ? read_hugging_face(path) : read_nemo(path);
  if (!att_context_size.empty()) select_context(checkpoint.config, att_context_size, path.string());
  checkpoint.parameters = count_parameters(checkpoint.config);
  return checkpoint;
}

const std::string& Checkpoint::sha256() const {
  if (!checksum.empty()) return checksum;
  if (files.size() == 1) return checksum = sha256_file(files.front());
  std::string all;
  for (const auto& file : files) all += file.filename().string() + " " + sha256_file(file) + "\n";
  return checksum = rtfx::sha256(all);
}

}  // namespace rtfx
