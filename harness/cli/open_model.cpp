#include "harness/cli/open_model.h"

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "harness/cli/transcript_printer.h"
#include "models/checkpoint/config.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/device.h"

namespace rtfx {

OpenedModel open_model(const ModelArguments& arguments, at::Device device) {
  Checkpoint checkpoint = load_checkpoint(arguments.model);
  if (!arguments.language.empty())
    select_language(checkpoint.config, arguments.language, "--language");
  if (!arguments.att_context_size.empty())
    choose_context(checkpoint, arguments.att_context_size, "--att-context-size");
  const Dtypes dtypes =
      usable_dtypes(parse_dtypes(arguments.dtype, "--dtype"), device, checkpoint.notices);
  for (const std::string& notice : checkpoint.notices)
    print_notice(arguments.model.string() + ": " + notice);
  return {std::move(checkpoint), dtypes};
}

nlohmann::json parse_decoder_options(const std::string& text) {
  constexpr const char* kExample = R"(for example '{"window": 8}')";
  nlohmann::json options = parse_json(text, "--options", kExample);
  if (!options.is_object()) throw UserError("--options", text + " is not a JSON object", kExample);
  return options;
}

}  // namespace rtfx
