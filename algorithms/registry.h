// Decoders by name. A decoder registers itself from its own source file, with a static object:
// Register of decoder_base.h, or RegisterDecoder if it is made in another way.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/decoder.h"
#include "base/options.h"
#include "models/checkpoint/config.h"

namespace rtfx {

struct DecoderEntry {
  std::string name;
  std::string summary;              // one line for `rtfx list`
  std::vector<OptionInfo> options;  // for `rtfx list`, validation and documentation
  /// Builds a decoder from a JSON object of options; `where` names it in error messages.
  std::function<std::unique_ptr<Decoder>(const nlohmann::json& options, std::string_view where)>
      make;
  bool needs_gpu = false;  // prepare() refuses a model on a CPU
};

struct RegisterDecoder {
  explicit RegisterDecoder(DecoderEntry entry);
};

/// All registered decoders, sorted by name.
std::vector<const DecoderEntry*> decoder_entries();

/// Throws UserError with the nearest name when there is no such decoder. `where`: JSON pointer.
const DecoderEntry& find_decoder(std::string_view name, std::string_view where);

/// find_decoder + make.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where);

/// Makes a decoder for a model. Where `options` leave out max_symbols and the decoder has that
/// option, it is the one that the checkpoint states.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where, const ModelConfig& model);

/// Loads a shared library whose static initialisers register decoders. Throws UserError.
void load_plugin(const std::string& path);

}  // namespace rtfx
