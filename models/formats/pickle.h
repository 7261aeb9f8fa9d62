// A machine that runs pickles of Python by an allow-list: it builds the objects and calls nothing.
// models/formats/torch_weights.h says which pickles it reads, and why.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rtfx::pickle {

/// A value on the machine's stack. Values refer to each other by their index in the machine's list,
/// so that no function here is recursive.
struct Value {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    sequence,    // a tuple or a list: `items`
    dictionary,  // `items`: key, value, key, value ...
    global,      // `text`: module and name
    storage,     // `items`: those of the reference ('storage', type, key, place, elements)
    tensor,      // `items`: the arguments of _rebuild_tensor_v2
    foreign,     // made by a global that is not allowed, which `text` names; it was not called
  };
  Kind kind = Kind::none;
  int64_t integer = 0;  // also holds a boolean
  std::string_view text;
  std::vector<uint32_t> items;
};
using Kind = Value::Kind;

/// The objects that a pickle built. They are views of the pickle, which must outlive them. A copy
/// would refer to the names of its original.
struct Program {
  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::deque<Value> values;       // a deque, since a value is referred to while others are added
  std::deque<std::string> names;  // names of globals; values refer to the text
  uint32_t result = 0;            // index of the value that was left at the end
};

/// Runs the pickle `bytes`. Throws UserError(where) for more than 4 MiB, for an opcode outside of
/// the list, and for bytes that are cut or malformed. A global that is unknown becomes
/// Kind::foreign, which the caller must refuse.
Program run(std::string_view bytes, const std::string& where);

/// Returns the element type of the storages that a global such as "torch FloatStorage" names.
std::optional<c10::ScalarType> storage_dtype(std::string_view global);

/// Returns the error "where: not PyTorch weights: the pickle <problem>".
UserError failure(const std::string& where, const std::string& problem);

}  // namespace rtfx::pickle
