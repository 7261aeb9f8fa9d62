// The decoder where nobody has named one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "models/acoustic_model.h"

namespace rtfx {

/// The name of the fastest exact greedy search of a model on its device: fused_looping on a GPU
/// where it knows the model and these options (a JSON object, as make_decoder() takes them), else
/// label_looping; ctc_greedy for a model without a transducer. Tries it, which on a GPU takes the
/// memory of fused_looping for that moment.
std::string default_decoder(const std::shared_ptr<const AcousticModel>& model,
                            const nlohmann::json& options);

}  // namespace rtfx
