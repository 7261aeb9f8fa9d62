// Reads archives: tar and tar.gz, which .nemo files are, and zip, which holds their weights.
#include "models/formats/archive.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  const auto all = [](const std::string&) { return true; };
  for (const auto format : {rtfx::ArchiveFormat::tar, rtfx::ArchiveFormat::zip}) {
    try {
      rtfx::read_archive(bytes, format, "fuzz", all);
    } catch (const rtfx::UserError&) {
    }
  }
}
