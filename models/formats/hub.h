// Models by their name on huggingface.co, where their files are on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace rtfx {

/// Returns "owner/name" if `given` is that or the address of the model's page. A path that ends in
/// `.nemo`, or whose folder exists, is no such name.
std::optional<std::string> hub_name(const std::string& given);

/// Returns the checkpoint that `given` names: a `.nemo` file or a folder with `config.json`.
/// A file is returned as it is. Of a folder without `config.json`, the only `.nemo` file in it is
/// returned. A name such as `nvidia/parakeet-tdt-0.6b-v2`, or the address of that page, is looked
/// up in the cache that `hf download` fills: `$HF_HUB_CACHE`, else `$HF_HOME/hub`, else
/// `huggingface/hub` in `$XDG_CACHE_HOME` or `~/.cache`. Its revision `main` counts. Nothing is
/// downloaded. Throws UserError if a folder holds several `.nemo` files, or a path cannot be looked
/// at. With the command that downloads it, throws UserError if a model is not in the cache, or not
/// all of it. Any other path is returned as it is, and its reader says what is missing.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace rtfx
