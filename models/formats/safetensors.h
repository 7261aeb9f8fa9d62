// The safetensors format of Hugging Face: a JSON header with names, types, shapes and offsets, then
// the bytes.
#pragma once

#include <memory>
#include <vector>

#include "base/files.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Returns the tensors of `file`, as views of it. Throws UserError where the header breaks the
/// format. It has at most 100 MB, and every byte after it belongs to exactly one tensor. Also
/// throws for a type that no PyTorch checkpoint of a speech model has, such as 8-bit floats.
StateDict read_safetensors(const std::shared_ptr<const MappedFile>& file);

/// Returns the weights of a folder: model.safetensors, or the files that
/// model.safetensors.index.json lists. Adds the files that were read to `files`.
StateDict read_safetensors_folder(const std::filesystem::path& folder,
                                  std::vector<std::filesystem::path>& files);

}  // namespace rtfx
