// Opens a checkpoint of NeMo or of Hugging Face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Reads a `.nemo` archive, also unpacked (models/formats/nemo.h), or a Hugging Face folder
/// (models/formats/hugging_face.h). `given` is its path, or the name of a model of huggingface.co
/// that has been downloaded (models/formats/hub.h). The tensors decide: where the settings beside
/// them disagree, the checkpoint has a notice. `att_context_size` selects one of the attention
/// contexts of a cache-aware encoder, as choose_context() does. Where it is empty, the model keeps
/// its default. Throws UserError for what is missing, damaged or not supported, and names the
/// setting.
Checkpoint load_checkpoint(const std::filesystem::path& given,
                           const std::vector<int64_t>& att_context_size = {});

/// Calls select_context(). As in NeMo, a context that is none of encoder.contexts is taken. The
/// checkpoint then has a notice, since texts may get worse.
void choose_context(Checkpoint& checkpoint, const std::vector<int64_t>& context,
                    const std::string& where);

}  // namespace rtfx
