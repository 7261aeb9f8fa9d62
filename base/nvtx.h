// NVTX ranges of the domain "rtfx". Free of cost without a profiler; needs no GPU.
#pragma once

#include <atomic>
#include <nvtx3/nvtx3.hpp>

namespace rtfx {

struct NvtxDomain {
  static constexpr char const* name{"rtfx"};
};

/// Is told of every range of this process (`rtfx profile`). Calls come from the range's thread.
class RangeListener {
 public:
  virtual void opened(const char* name) noexcept = 0;
  virtual void closed(const char* name) noexcept = 0;

 protected:
  ~RangeListener() = default;
};

/// At most one; null in all other subcommands. A range tells the listener of its start of its end.
inline std::atomic<RangeListener*> range_listener{nullptr};

/// One named range on the calling thread, from construction to destruction. Names are the closed
/// vocabulary of regions (harness/run/regions.h), of decoder phases ("decode.project",
/// "decode.init", "decode.loop") and "wait", where the harness waits for the device; literals
/// without arguments, so that a profiler can add them up.
class ScopedRange {
 public:
  explicit ScopedRange(const char* name)
      : name_(name), range_(name), listener_(range_listener.load(std::memory_order_acquire)) {
    if (listener_ != nullptr) listener_->opened(name_);
  }
  ~ScopedRange() {
    if (listener_ != nullptr) listener_->closed(name_);
  }
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  const char* name_;
  nvtx3::scoped_range_in<NvtxDomain> range_;
  RangeListener* listener_;
};

}  // namespace rtfx
