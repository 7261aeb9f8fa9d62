// Exit codes, errors that a user can correct, and the check for defects of rtfx itself.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// The exit codes of the program. docs/reference/output.md lists them, and those of `rtfx gate`.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kCorrectness = 13, kInterrupted = 130 };

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

/// Returns the allowed name with the smallest edit distance to `name`. Returns an empty string when
/// none is close: a distance above a third of the length of `name`, or above 2 if that is more.
std::string nearest(std::string_view name, std::span<const std::string> allowed);

/// Returns the error "unknown <kind> 'x'; did you mean 'y'? allowed: a, b, c".
UserError unknown_name(std::string_view where, std::string_view kind, std::string_view name,
                       std::span<const std::string> allowed);

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);

}  // namespace rtfx

/// Checks an invariant of rtfx itself. A failure throws std::logic_error with file and line.
#define RTFX_CHECK(condition, message)                                               \
  do {                                                                               \
    if (!(condition)) ::rtfx::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)

namespace rtfx {

/// Several errors as one. what() has a line for each.
class UserErrors : public UserError {
 public:
  explicit UserErrors(std::vector<UserError> all);
  const std::vector<UserError>& all() const { return all_; }

 private:
  std::vector<UserError> all_;
};

/// Collects all errors of an input, so that a user mends them in one go.
class ErrorList {
 public:
  /// Calls `work` and keeps the UserError that it throws. Returns whether it threw none.
  template <class Work>
  bool run(const Work& work) {
    try {
      work();
      return true;
    } catch (const UserError& e) {
      add(e);
      return false;
    }
  }
  /// Adds an error. The errors of a UserErrors are added one by one.
  void add(const UserError& error);
  bool empty() const { return errors_.empty(); }
  const std::vector<UserError>& all() const { return errors_; }
  /// Throws a single error as it is, and several as UserErrors. Does nothing if there is none.
  void throw_any() const;

 private:
  std::vector<UserError> errors_;
};

}  // namespace rtfx
