#pragma once

#include <cstddef>

namespace rtfx {

/// The bytes [begin, end) of a file.
struct ByteRange {
  size_t begin = 0, end = 0;
};

}  // namespace rtfx
