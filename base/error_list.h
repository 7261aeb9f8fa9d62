// All errors of an input at once, so that a user mends them in one go.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace rtfx {

/// Several errors as one; what() has a line for each.
class UserErrors : public UserError {
 public:
  explicit UserErrors(std::vector<UserError> all);
  const std::vector<UserError>& all() const { return all_; }

 private:
  std::vector<UserError> all_;
};

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
