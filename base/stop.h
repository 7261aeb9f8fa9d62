// Lets long work end between its steps when its caller no longer wants the result.
#pragma once

#include <exception>
#include <functional>

namespace rtfx {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// While a scope lives, check_stop() on this thread throws Interrupted as soon as `stopped` returns
/// true.
class StopScope {
 public:
  explicit StopScope(std::function<bool()> stopped);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::function<bool()> stopped_;
  const std::function<bool()>* outer_;  // the function of the scope around this one
};

/// Throws Interrupted if the innermost StopScope of this thread says so. Long work calls it between
/// its steps. Does nothing on a thread without a StopScope.
void check_stop();

}  // namespace rtfx
