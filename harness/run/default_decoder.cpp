#include "harness/run/default_decoder.h"

#include "algorithms/registry.h"
#include "base/error.h"

namespace rtfx {

std::string default_decoder(const std::shared_ptr<const AcousticModel>& model,
                            const nlohmann::json& options) {
  if (!model->config.has_transducer) return "ctc_greedy";
  if (model->device.is_cuda()) {
    try {
      make_decoder("fused_looping", options, "options", model->config)->prepare(model, {});
      return "fused_looping";
    } catch (const UserError&) {
      // Another model, GPU or option than it knows; what label_looping does not know either, it
      // says.
    }
  }
  return "label_looping";
}

}  // namespace rtfx
