// Finds models by their name on huggingface.co, where their files are on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace rtfx {

/// Returns "owner/name" if `given` has this form or is the address of the model's page. A path that
/// ends in `.nemo`, or whose folder exists, does not count as a name. Neither does a text of more
/// than 1,000 bytes.
std::optional<std::string> hub_name(const std::string& given);

/// Returns the checkpoint that `given` names: a `.nemo` file or a folder with `config.json`. A file
/// is returned as it is. In a folder without `config.json`, the only `.nemo` file is returned.
///
/// A name such as `nvidia/parakeet-tdt-0.6b-v2`, or the address of that page, is looked up in the
/// cache that `hf download` fills. The cache is `$HF_HUB_CACHE`, else `$HF_HOME/hub`, else
/// `huggingface/hub` in `$XDG_CACHE_HOME` or `~/.cache`. Its revision `main` counts. Nothing is
/// downloaded.
///
/// Throws UserError if a folder holds several `.nemo` files, or if a path cannot be examined. Also
/// throws UserError if the cache does not hold the whole model. Its message then has the command
/// that downloads the model. Any other path is returned as it is, and its reader says what is
/// missing.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace rtfx
