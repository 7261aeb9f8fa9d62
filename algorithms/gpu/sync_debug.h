// Finds waits of the host for the device that a decoder did not declare.
#pragma once

#include <functional>

namespace rtfx {

/// Runs `work` and throws UserError naming the operators, if any of them read device data on the
/// host (a scalar read, a data-dependent shape, a blocking copy) outside of AllowSync. Works on the
/// CPU too, where the same operators are watched although nothing waits. On a GPU, LibTorch's own
/// synchronisation check is set to "error" as well.
void forbid_undeclared_syncs(const std::function<void()>& work);

/// While one exists on this thread, waiting is allowed. Nests.
class AllowSync {
 public:
  AllowSync();
  ~AllowSync();
  AllowSync(const AllowSync&) = delete;
  AllowSync& operator=(const AllowSync&) = delete;

 private:
  int previous_mode_;
};

}  // namespace rtfx
