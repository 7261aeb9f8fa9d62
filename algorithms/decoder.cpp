#include "algorithms/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "models/acoustic_model.h"

namespace rtfx {

int64_t EncodedBatch::longest() const {
  const auto most = std::max_element(lengths_host.begin(), lengths_host.end());
  return most == lengths_host.end() ? 0 : *most;
}

std::shared_ptr<const CompiledBias> Decoder::compile_bias(const BiasRequest&) const {
  throw UserError(describe().name, "has no phrases or allowed characters for single utterances",
                  "leave out \"boost\" and \"allowed\" of the utterances, or choose a decoder that "
                  "has the option \"allowed\"");
}

void require_model_kind(const Description& description, const AcousticModel& model) {
  const std::vector<std::string> offered = model.config.kinds();
  const auto serves = [&](const std::string& kind) {
    return std::find(offered.begin(), offered.end(), kind) != offered.end();
  };
  const auto& kinds = description.model_kinds;
  if (!kinds.empty() && std::none_of(kinds.begin(), kinds.end(), serves)) {
    throw UserError(description.name,
                    fmt::format("cannot decode a model of kind {}", fmt::join(offered, " + ")),
                    fmt::format("it needs {}", fmt::join(kinds, " or ")));
  }
}

}  // namespace rtfx
