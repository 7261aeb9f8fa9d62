// A decoder broke its contract (hypotheses.h).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace rtfx {

/// what() names the row of the batch and what is wrong there.
class WrongResult : public std::runtime_error {
 public:
  /// `row`: -1 where it is about the batch as a whole.
  WrongResult(int64_t row, const std::string& problem)
      : std::runtime_error("the decoder's result is wrong: " +
                           (row < 0 ? "" : "row " + std::to_string(row) + ": ") + problem),
        row_(row) {}
  int64_t row() const { return row_; }

 private:
  int64_t row_;
};

}  // namespace rtfx
