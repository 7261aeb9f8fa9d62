#include "harness/run/default_decoder.h"

#include "algorithms/registry.h"
#include "base/error.h"

namespace rtfx {
namespace {

/// Whether it is a GPU, and the decoder can be prepared there.
bool runs_on_gpu(const DefaultDecoder& decoder, const std::shared_ptr<const AcousticModel>& model) {
  if (!model->device.is_cuda()) return false;
  try {
    make_decoder(decoder.name, decoder.options, "options", model->config)->prepare(model, {});
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

DefaultDecoder default_greedy(const std::shared_ptr<const AcousticModel>& model,
                              const nlohmann::json& options) {
  if (!model->config.has_transducer) return {"ctc_greedy", options};
  const DefaultDecoder fused{"fused_looping", options};
  return runs_on_gpu(fused, model) ? fused : DefaultDecoder{"label_looping", options};
}

DefaultDecoder default_beam(const std::shared_ptr<const AcousticModel>& model,
                            const nlohmann::json& options) {
  const DefaultDecoder plain{model->config.has_transducer ? "alsd_pp" : "ctc_beam", options};
  DefaultDecoder fused = plain;
  fused.options.emplace("kernels", "fused");  // unless they say something else
  return runs_on_gpu(fused, model) ? fused : plain;
}

}  // namespace rtfx
