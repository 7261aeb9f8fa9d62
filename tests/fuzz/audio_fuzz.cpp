// Reads audio files of every container.
#include "datasets/audio.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  const rtfx::MemoryFile file(bytes);
  rtfx::read_audio(file.path());
}
