#include "models/load_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

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
  if (!att_context_size.empty()) choose_context(checkpoint, att_context_size, path.string());
  checkpoint.parameters = count_parameters(checkpoint.config);
  return checkpoint;
}

void choose_context(Checkpoint& checkpoint, const std::vector<int64_t>& context,
                    const std::string& where) {
  select_context(checkpoint.config, context, where);
  const EncoderConfig& encoder = checkpoint.config.encoder;
  if (std::ranges::find(encoder.contexts, context) != encoder.contexts.end()) return;
  const auto text = [](const std::vector<int64_t>& c) {
    return fmt::format("[{}]", fmt::join(c, ","));
  };
  std::vector<std::string> offered;
  for (const std::vector<int64_t>& one : encoder.contexts) offered.push_back(text(one));
  std::string notice =
      fmt::format("the attention context {} is none of those that the model offers: {}",
                  text(context), fmt::join(offered, ", "));
  if (context[0] >= 0 && encoder.left_context != context[0]) {
    notice += fmt::format("; its left part becomes {} frames, whole chunks of {}",
                          encoder.left_context, encoder.chunk);
  }
  checkpoint.notices.push_back(std::move(notice));
}

}  // namespace rtfx
