// Exit codes, errors that a user can mend, alone or as a list, and the check for defects of rtfx
// itself.
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

namespace rtfx {

/// Several errors as one; what() has a line for each.
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
  /// Does `work` and keeps the errors that it throws; whether there were none.
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
  /// One that UserErrors holds is one of the list.
  void add(const UserError& error);
  bool empty() const { return errors_.empty(); }
  const std::vector<UserError>& all() const { return errors_; }
  /// A single error as it is, several as UserErrors; nothing where there is none.
  void throw_any() const;

 private:
  std::vector<UserError> errors_;
};

}  // namespace rtfx
