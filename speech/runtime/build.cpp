#include "speech/runtime/build.h"

#include <fmt/format.h>
#include <link.h>
#include <torch/version.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "generated/revision.h"

namespace rtfx {
namespace {

/// Returns the file of the loaded libtorch_cpu.so. The path is empty if there is none of this name.
std::filesystem::path libtorch_file() {
  std::filesystem::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* path) {
        const std::string_view name = library->dlpi_name;
        if (!name.ends_with("/libtorch_cpu.so")) return 0;
        *static_cast<std::filesystem::path*>(path) = name;
        return 1;
      },
      &found);
  return found;
}

/// Returns the release of the LibTorch in use, such as "2.11.0", without the part after a plus
/// sign. It comes from a file in its package or archive. Empty if there is no such file.
std::string libtorch_in_use() {
  const std::filesystem::path file_in_use = libtorch_file();
  if (file_in_use.empty()) return "";
  const std::filesystem::path folder = file_in_use.parent_path().parent_path();
  for (const char* name : {"version.py", "build-version"}) {
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kPython = "__version__ = ";
      if (std::string_view(name) == "version.py" && !line.starts_with(kPython)) continue;
      const size_t begin = line.find_first_of("0123456789");
      if (begin != std::string::npos)
        return line.substr(begin, line.find_first_not_of("0123456789.", begin) - begin);
    }
  }
  return "";
}

}  // namespace

const Build& build() {
  static const std::string in_use = libtorch_in_use();
  static const Build kBuild{.version = RTFX_VERSION,
                            .revision = RTFX_REVISION,
                            .dirty = static_cast<bool>(RTFX_DIRTY),
                            .changes = RTFX_CHANGES,
                            .type = RTFX_BUILD_TYPE,
                            .sanitized = !std::string_view(RTFX_SANITIZERS).empty(),
                            .compiler = "GCC " __VERSION__,
                            .libtorch = in_use.empty() ? TORCH_VERSION : in_use,
                            .made_with = TORCH_VERSION};
  return kBuild;
}

std::string version_text() {
  const Build& b = build();
  return fmt::format("rtfx {} ({}{}, {}, LibTorch {}{})", b.version, b.revision,
                     b.dirty ? "+changes" : "", b.type, b.libtorch,
                     b.libtorch == b.made_with ? "" : ", made with " + b.made_with);
}

std::string build_warning() {
  if (build().type == "Release") return "";
  return fmt::format("this is a {} build: its times are not comparable; use the preset 'release'",
                     build().type);
}

}  // namespace rtfx
