#include "harness/cli/open_model.h"

#include <utility>

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
    select_context(checkpoint.config, arguments.att_context_size, "--att-context-size");
  const Dtypes dtypes =
      usable_dtypes(parse_dtypes(arguments.dtype, "--dtype"), device, checkpoint.notices);
  for (const std::string& notice : checkpoint.notices)
    print_notice(arguments.model.string() + ": " + notice);
  return {std::move(checkpoint), dtypes};
}

}  // namespace rtfx
