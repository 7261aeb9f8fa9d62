// Threads of OpenMP that wait for each other: by spinning, which takes the CPU from whoever else
// wants it, or in the kernel.
#pragma once

#include <string>

namespace rtfx {

/// How they wait in this process, in the words of OpenMP's variables: "passive", "active",
/// "GOMP_SPINCOUNT=1000"; "default" where nothing says.
std::string wait_policy();

/// Makes it passive, unless the user has set one of these variables. For .preinit_array, before the
/// first line of the program and of its libraries: a program's alone, no library may have one.
void make_waits_passive(int count, char** arguments, char** environment);

}  // namespace rtfx
