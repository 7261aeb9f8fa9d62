// The decoder where nobody has named one.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// A decoder as make_decoder() makes it of these.
struct DecoderChoice {
  std::string name;
  nlohmann::json options;
};

/// Calls Decoder::prepare() as the caller needs it.
using PrepareDecoder = std::function<void(Decoder&)>;

/// The first of `choices` that can be made and prepared, prepared. Of those before the last a
/// UserError (another model, GPU or option than they know) is passed over; the last one's is
/// thrown. `where` names them in errors.
std::unique_ptr<Decoder> first_prepared(const std::vector<DecoderChoice>& choices,
                                        std::string_view where, const ModelConfig& model,
                                        const PrepareDecoder& prepare);

/// The fastest exact greedy search for a model on its device that takes these options: on a GPU
/// fused_looping, else label_looping; ctc_greedy for a model without a transducer.
std::unique_ptr<Decoder> default_greedy(const AcousticModel& model, const nlohmann::json& options,
                                        std::string_view where, const PrepareDecoder& prepare);

}  // namespace rtfx
