// Reads folders as transformers' save_pretrained() writes them.
#pragma once

#include <filesystem>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Reads `config.json`, `model.safetensors` (or the files of `model.safetensors.index.json`),
/// `tokenizer.json`, `tokenizer_config.json` if it is there, and `processor_config.json` (or
/// `preprocessor_config.json`). They may be of ParakeetForCTC, ParakeetForRNNT, ParakeetForTDT,
/// NemotronAsrStreamingForRNNT and Nemotron3_5AsrForRNNT. Tensors get NeMo's names
/// (models/checkpoint/checkpoint.h). Throws UserError, and names the file and the key.
Checkpoint read_hugging_face(const std::filesystem::path& folder);

}  // namespace rtfx
