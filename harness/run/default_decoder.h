// The decoder where nobody has named one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "models/acoustic_model.h"

namespace rtfx {

/// As make_decoder() takes them.
struct DefaultDecoder {
  std::string name;
  nlohmann::json options;
};

/// The fastest for a model on its device, with these options (an object). On a GPU it is tried,
/// which takes its memory for that moment: where it does not know the model, the GPU or an option,
/// it is what a CPU would have, and that says what is wrong.
///
/// Of the exact greedy searches: fused_looping on a GPU, else label_looping; ctc_greedy for a model
/// without a transducer.
DefaultDecoder default_greedy(const std::shared_ptr<const AcousticModel>& model,
                              const nlohmann::json& options);
/// Of the beam searches with a list of results: alsd_pp, or ctc_beam; on a GPU by fused kernels.
DefaultDecoder default_beam(const std::shared_ptr<const AcousticModel>& model,
                            const nlohmann::json& options);

}  // namespace rtfx
