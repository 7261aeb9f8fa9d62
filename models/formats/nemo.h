// Reads `.nemo` archives, as NeMo's save_to() writes them.
#pragma once

#include <filesystem>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Reads a tar archive, plain or gzip, with `model_config.yaml` and `model_weights.ckpt` (fp32,
/// fp16 or bf16). The YAML names the tokenizer: a SentencePiece model, a WordPiece vocabulary, or
/// several of these by language. Instead of a tokenizer, it may hold a list of characters. A plain
/// archive is mapped, and its tensors are views of it. `path` may also be a folder into which an
/// archive was unpacked. Throws UserError, also for weights without configuration.
Checkpoint read_nemo(const std::filesystem::path& path);

}  // namespace rtfx
