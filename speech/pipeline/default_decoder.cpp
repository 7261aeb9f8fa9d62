#include "speech/pipeline/default_decoder.h"

#include "algorithms/decoder.h"
#include "base/error.h"

namespace rtfx {

std::unique_ptr<Decoder> first_prepared(const std::vector<DecoderChoice>& choices,
                                        std::string_view where, const ModelConfig& model,
                                        const PrepareDecoder& prepare) {
  for (const DecoderChoice& choice : choices) {
    try {
      std::unique_ptr<Decoder> decoder = make_decoder(choice.name, choice.options, where, model);
      prepare(*decoder);
      return decoder;
    } catch (const UserError&) {
      if (&choice == &choices.back()) throw;
    }
  }
  RTFX_CHECK(false, "there is a choice");
}

std::unique_ptr<Decoder> default_greedy(const AcousticModel& model, const nlohmann::json& options,
                                        std::string_view where, const PrepareDecoder& prepare) {
  std::vector<DecoderChoice> choices;
  if (!model.config.has_transducer) {
    choices = {{"ctc_greedy", options}};
  } else {
    if (model.device.is_cuda()) choices.push_back({"fused_looping", options});
    choices.push_back({"label_looping", options});
  }
  return first_prepared(choices, where, model.config, prepare);
}

}  // namespace rtfx
