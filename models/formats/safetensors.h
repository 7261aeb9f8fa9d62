// The safetensors format of Hugging Face: a JSON header with names, types, shapes and offsets, then
// the bytes.
#pragma once

#include <memory>

#include "base/files.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// The tensors of `file`, as views of it. Throws UserError where the header breaks the format (at
/// most 100 MB, and every byte behind it belongs to exactly one tensor). Also throws for a type
/// that no PyTorch checkpoint of a speech model has, such as 8-bit floats.
StateDict read_safetensors(const std::shared_ptr<const MappedFile>& file);

/// A folder's weights: model.safetensors, or the files that model.safetensors.index.json lists.
/// Adds the files that were read to `files`.
StateDict read_safetensors_folder(const std::filesystem::path& folder,
                                  std::vector<std::filesystem::path>& files);

}  // namespace rtfx
