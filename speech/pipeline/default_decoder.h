// Chooses the decoder where the user names none.
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

/// The arguments of make_decoder().
struct DecoderChoice {
  std::string name;
  nlohmann::json options;
};

/// Calls Decoder::prepare() with the caller's arguments.
using PrepareDecoder = std::function<void(Decoder&)>;

/// Returns the first of `choices` that can be made and prepared, prepared. A UserError of one
/// before the last is ignored (it may not know the model, the GPU or an option). That of the last
/// one is thrown. `where` names the choices in errors.
std::unique_ptr<Decoder> first_prepared(const std::vector<DecoderChoice>& choices,
                                        std::string_view where, const ModelConfig& model,
                                        const PrepareDecoder& prepare);

/// Returns the fastest exact greedy search for a model on its device that takes these options. On a
/// GPU it is fused_looping, else label_looping. For a model without a transducer it is ctc_greedy.
std::unique_ptr<Decoder> default_greedy(const AcousticModel& model, const nlohmann::json& options,
                                        std::string_view where, const PrepareDecoder& prepare);

}  // namespace rtfx
