#include "algorithms/shared/beams/beam_options.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {

void require_beam_fits(const Description& description, int64_t beam_size,
                       const AcousticModel& model) {
  if (beam_size <= model.config.vocabulary) return;
  throw UserError(description.name,
                  fmt::format("a beam of {} is larger than the vocabulary of the model, {} tokens",
                              beam_size, model.config.vocabulary),
                  "choose a smaller beam");
}

}  // namespace rtfx
