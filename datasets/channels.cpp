#include "datasets/channels.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace rtfx {

void require_channel(const std::filesystem::path& path, int channel, int channels) {
  if (channel <= channels) return;
  throw UserError(path.string(),
                  fmt::format("has {}, and not channel {}", counted(channels, "channel"), channel),
                  "choose another one, or leave the choice out");
}

std::string mixed_notice(int channels) {
  return fmt::format("mixed {} channels to mono", channels);
}

}  // namespace rtfx
