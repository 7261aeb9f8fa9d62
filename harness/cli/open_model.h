// Opens the model that the arguments of `rtfx transcribe`, `rtfx align` or `rtfx stream` name, and
// reads the options of its decoder.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/dtypes.h"

namespace rtfx {

/// The arguments that choose a model and its settings.
struct ModelArguments {
  std::filesystem::path model;
  std::vector<int64_t> att_context_size;  // for cache-aware encoders; empty: the model's default
  std::string language;  // for speech whose manifest states none; empty: the model's default
  std::string dtype = "fp32";
};

struct OpenedModel {
  Checkpoint checkpoint;
  Dtypes dtypes;  // those that the device can multiply
};

/// Reads the model's file, sets the language and the attention context, and prints the notices of
/// the checkpoint with the model's name. Throws UserError.
OpenedModel open_model(const ModelArguments& arguments, at::Device device);

/// Returns the JSON object that --options gives. Throws UserError for any other text.
nlohmann::json parse_decoder_options(const std::string& text);

}  // namespace rtfx
