#include "speech/runtime/build.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <string_view>

#include "generated/revision.h"

namespace rtfx {

const Build& build() {
  static const Build kBuild{.version = RTFX_VERSION,
                            .revision = RTFX_REVISION,
                            .dirty = static_cast<bool>(RTFX_DIRTY),
                            .type = RTFX_BUILD_TYPE,
                            .sanitized = !std::string_view(RTFX_SANITIZERS).empty(),
                            .compiler = "GCC " __VERSION__,
                            .libtorch = TORCH_VERSION};
  return kBuild;
}

std::string version_text() {
  const Build& b = build();
  return fmt::format("rtfx {} ({}{}, {}, LibTorch {})", b.version, b.revision,
                     b.dirty ? "+changes" : "", b.type, b.libtorch);
}

std::string build_warning() {
  if (build().type == "Release") return "";
  return fmt::format("this is a {} build: its times are not comparable; use the preset 'release'",
                     build().type);
}

}  // namespace rtfx
