// Guards what all decoders share against code that is no part of rtfx: decoders in Python and in
// plug-ins. Such code may write to shared tensors, or leave LibTorch with other settings. Then the
// results or the times of all decoders after it would be wrong.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>
#include <sched.h>
#include <sys/types.h>

#include <cfenv>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"

namespace rtfx {

/// Holds settings of LibTorch, of the calling thread and of its arithmetic, as they are when it is
/// made. These are threads, CPUs, gradients, autocast, modes of Python, precision, the current
/// device and stream, rounding, denormal numbers, and the working directory.
class SharedSettings {
 public:
  SharedSettings();

  /// Puts back the settings that have changed since. Must be called on the same thread. Returns a
  /// phrase for each change, for example "the number of threads (2 -> 1)".
  std::vector<std::string> restore() const;

 private:
  std::vector<int64_t> values_;
  at::ThreadLocalState torch_;
  int autocasts_;  // scopes that are open
  std::optional<c10::Stream> stream_;
  std::fenv_t arithmetic_{};
  bool flushes_;  // denormal numbers count as zero
  cpu_set_t cpus_{};
  std::filesystem::path folder_;  // relative paths of the program begin there
};

/// Tensors that several decoders read, and a copy of each.
class SharedTensors {
 public:
  /// Enqueues a copy of each tensor. The keys of the map are the names in messages.
  explicit SharedTensors(std::map<std::string, at::Tensor> tensors);

  /// Writes the copies back to tensors whose bytes differ, and returns their names. Waits for the
  /// device to compare the bytes, but not for the copies that it writes back.
  std::vector<std::string> restore() const;

 private:
  std::map<std::string, at::Tensor> tensors_, copies_;
};

/// Ends every process that is forked in the guard's scope, at the end of that scope. Only the
/// original process goes on with the program.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  pid_t process_;
};

/// Calls `work`, which runs code of `decoder`. For a decoder of rtfx it does nothing else. A
/// foreign decoder must leave all settings and the `shared` tensors as they are. Changes are put
/// back, also where `work` throws, and a UserError then names them. A process that `work` forks
/// ends when `work` returns in it. Waits for the device where `shared` has tensors on it.
void call_decoder(const Decoder& decoder, std::initializer_list<const SharedTensors*> shared,
                  const std::function<void()>& work);

}  // namespace rtfx
