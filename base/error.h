// Errors that a user can mend, and the check for everything that would be a defect of rtfx itself.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Bad input: a file, a configuration value, an option. what() reads "where: problem; remedy".
/// The command line prints it as it is and exits with 2 (usage) or 1 (run time).
class UserError : public std::runtime_error {
 public:
  /// `where`: file[:line], JSON pointer or option name. `remedy` may be empty.
  UserError(std::string_view where, std::string_view problem, std::string_view remedy = {});
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

/// The allowed name with the smallest edit distance to `name`; empty when none is close
/// (distance above a third of the length, at least 2).
std::string nearest(std::string_view name, std::span<const std::string> allowed);

/// "unknown <kind> 'x'; did you mean 'y'? allowed: a, b, c".
UserError unknown_name(std::string_view where, std::string_view kind, std::string_view name,
                       std::span<const std::string> allowed);

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);

}  // namespace rtfx

/// Invariant of rtfx itself: a failure throws std::logic_error with file and line.
#define RTFX_CHECK(condition, message)                                               \
  do {                                                                               \
    if (!(condition)) ::rtfx::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)
