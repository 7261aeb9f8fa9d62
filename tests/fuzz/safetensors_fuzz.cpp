#include "models/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  const rtfx::MemoryFile file(bytes);
  for (const auto& [name, tensor] : rtfx::read_safetensors(rtfx::MappedFile::open(file.path())))
    if (tensor.is_floating_point()) tensor.sum();
}
