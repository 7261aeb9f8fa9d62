#include "models/load_checkpoint.h"

#include "models/checkpoint/config.h"
#include "models/formats/hub.h"
#include "models/formats/hugging_face.h"
#include "models/formats/nemo.h"

namespace rtfx {

Checkpoint load_checkpoint(const std::filesystem::path& given,
                           const std::vector<int64_t>& att_context_size) {
  const std::filesystem::path path = find_checkpoint(given);
  const bool is_unpacked = std::filesystem::exists(path / "model_config.yaml") &&
                           !std::filesystem::exists(path / "config.json");
  Checkpoint checkpoint = std::filesystem::is_directory(path) && !is_unpacked
                              ? read_hugging_face(path)
                              : read_nemo(path);
  if (!att_context_size.empty()) select_context(checkpoint.config, att_context_size, path.string());
  checkpoint.parameters = count_parameters(checkpoint.config);
  return checkpoint;
}

}  // namespace rtfx
