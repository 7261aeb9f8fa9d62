// The error of a record that is not what its table says.
#pragma once

#include <string>

#include "base/error.h"

namespace rtfx {

/// Throws UserError(where). `problem` and `remedy` name the field.
[[noreturn]] inline void refuse_record(const std::string& where, const std::string& problem,
                                       const std::string& remedy) {
  throw UserError(where, problem,
                  remedy + "; the journal was edited or damaged, or is of another release");
}

}  // namespace rtfx
