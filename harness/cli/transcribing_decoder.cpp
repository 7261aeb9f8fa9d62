#include "harness/cli/transcribing_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/json.h"

namespace rtfx {
namespace {

using nlohmann::json;

json parse_options(const std::string& text) {
  constexpr const char* kExample = R"(for example '{"window": 8}')";
  json options = parse_json(text, "--options", kExample);
  if (!options.is_object()) throw UserError("--options", text + " is not a JSON object", kExample);
  return options;
}

/// With what other arguments say of the decoder.
json decoder_options(const TranscribeOptions& options) {
  json all = parse_options(options.decoder_options);
  if (!options.boost.empty()) all["boost"]["path"] = options.boost.string();
  for (const std::string& phrase : options.boost_phrases) all["boost"]["phrases"].push_back(phrase);
  for (const std::string& characters : options.allowed) all["allowed"].push_back(characters);
  return all;
}

/// Decoder options with what --nbest asks for.
json with_list(json options, const std::string& decoder, int64_t entries) {
  if (entries == 1) return options;
  int64_t beam = 0;
  bool has_list = false;
  for (const OptionInfo& option : find_decoder(decoder, "--decoder").options) {
    has_list = has_list || option.name == "nbest";
    if (option.name == "beam_size" && option.default_value.is_number_integer())
      beam = option.default_value.get<int64_t>();
  }
  if (!has_list) {
    std::vector<std::string> others;
    for (const DecoderEntry* entry : decoder_entries())
      for (const OptionInfo& option : entry->options)
        if (option.name == "nbest") others.push_back(entry->name);
    throw UserError("--nbest", decoder + " has no list of alternatives",
                    fmt::format("choose one of {}", fmt::join(others, ", ")));
  }
  options["nbest"] = entries;
  if (beam > 0 && !options.contains("beam_size")) options["beam_size"] = std::max(beam, entries);
  return options;
}

}  // namespace

std::unique_ptr<Decoder> named_decoder(const TranscribeOptions& options, const ModelConfig& model) {
  const json asked = decoder_options(options);
  if (options.decoder.empty()) return nullptr;
  return make_decoder(options.decoder, with_list(asked, options.decoder, options.nbest),
                      "--decoder", model);
}

std::unique_ptr<Decoder> unnamed_decoder(const TranscribeOptions& options,
                                         const AcousticModel& model,
                                         const PrepareDecoder& prepare) {
  const json asked = decoder_options(options);
  if (options.nbest == 1) return default_greedy(model, asked, "--decoder", prepare);
  const std::string beam = model.config.has_transducer ? "alsd_pp" : "ctc_beam";
  const DecoderChoice plain{beam, with_list(asked, beam, options.nbest)};
  DecoderChoice fused = plain;
  fused.options.emplace("kernels", "fused");  // unless they say something else
  std::vector<DecoderChoice> choices = {plain};
  if (model.device.is_cuda()) choices.insert(choices.begin(), fused);
  return first_prepared(choices, "--decoder", model.config, prepare);
}

}  // namespace rtfx
