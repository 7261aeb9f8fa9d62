// Weights as torch.save() writes them: a zip archive of a pickle and one file per storage.
#pragma once

#include <string>

#include "models/checkpoint/mapped_tensor.h"
#include "models/checkpoint/state_dict.h"

namespace rtfx {

/// The state dict in `file`, whose tensors are views of it (models/formats/pickle.h says what the
/// pickle may hold). fp32, fp16, bf16 and integer storages; tied tensors share theirs. Throws
/// UserError naming what is damaged or not supported.
StateDict read_torch_weights(const StoredBytes& file, const std::string& where);

}  // namespace rtfx
