// Lets long work end between its steps, where its caller wants the result no more.
#pragma once

#include <exception>
#include <functional>

namespace rtfx {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// While it lives, check_stop() on this thread throws Interrupted as soon as `stopped` returns
/// true.
class StopScope {
 public:
  explicit StopScope(std::function<bool()> stopped);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::function<bool()> stopped_;
  const std::function<bool()>* outer_;  // of the scope around this one
};

/// Called between the steps of long work. Does nothing on a thread without a StopScope.
void check_stop();

}  // namespace rtfx
