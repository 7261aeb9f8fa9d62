// `.nemo` archives, as NeMo's save_to() writes them.
#pragma once

#include <filesystem>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Reads a tar archive, plain or gzip: `model_config.yaml`, `model_weights.ckpt` (fp32, fp16 or
/// bf16) and what the YAML names as the tokenizer: a SentencePiece model, a WordPiece vocabulary,
/// several of these by language; or the list of characters that it holds itself. A plain archive is
/// mapped, and its tensors are views of it. Throws UserError.
Checkpoint read_nemo(const std::filesystem::path& path);

}  // namespace rtfx
