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

  /// Puts back what has changed since. To be called on the same thread. Returns a phrase for each
  /// change, for example "the number of threads (2 -> 1)".
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
  /// Messages have the names of the map. Enqueues the copies.
  explicit SharedTensors(std::map<std::string, at::Tensor> tensors);

  /// Writes the copies back to tensors whose bytes differ, and returns their names. Waits for the
  /// device, but not for what it writes.
  std::vector<std::string> restore() const;

 private:
  std::map<std::string, at::Tensor> tensors_, copies_;
};

/// Ends a process that is forked while it lives, at the end of its scope: the program goes on in
/// the process that it began in, and nowhere else.
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
/// foreign one must leave all settings and `shared` tensors as they are. What it changes is put
/// back, also where it throws, and is then thrown as a UserError that names it. A process that
/// `work` forks ends when `work` returns in it. Waits for the device where `shared` has tensors on
/// it.
void call_decoder(const Decoder& decoder, std::initializer_list<const SharedTensors*> shared,
                  const std::function<void()>& work);

}  // namespace rtfx
