// The build of rtfx that is running: its version, revision and build type.
#pragma once

#include <string>

namespace rtfx {

struct Build {
  std::string version;   // "0.1.0"
  std::string revision;  // the first 12 digits of the commit; empty outside of a git checkout
  bool dirty = false;    // the sources differed from that commit
  std::string changes;   // checksum of the differences; empty = none
  std::string type;      // CMake's build type; "Release" is the one to measure with
  bool sanitized = false;
  std::string compiler;
  std::string libtorch;   // release of LibTorch in use
  std::string made_with;  // release of LibTorch that rtfx was compiled with
};

const Build& build();

/// Returns "rtfx 0.1.0 (revision, build type, LibTorch version)".
std::string version_text();

/// Returns a warning that times of this build are not comparable, or nothing for a release build.
std::string build_warning();

}  // namespace rtfx
