// Threads of OpenMP that wait for each other: by spinning, which takes the CPU from whoever else
// wants it, or in the kernel.
#pragma once

#include <string>

namespace rtfx {

/// How they wait in this process, in the words of OpenMP's variables: "passive", "active",
/// "GOMP_SPINCOUNT=1000"; "default" where nothing says. A program that this file is linked into has
/// made it passive before its first line ran, unless the user had set one of these variables.
std::string wait_policy();

}  // namespace rtfx
