#include "algorithms/gpu/parallel.h"

#include <ATen/Parallel.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

namespace {

/// The thread sanitizer does not see libgomp's barriers: work comes after what was before it, and
/// before what is after it.
struct Barriers {
  explicit Barriers(void* at) : at(at) { __tsan_release(at); }
  ~Barriers() { __tsan_acquire(at); }
  void begin() const { __tsan_acquire(at); }
  void end() const { __tsan_release(at); }
  void* at;
};

}  // namespace
#endif

namespace rtfx {

void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work) {
#ifdef __SANITIZE_THREAD__
  const Barriers barriers(&count);
  const auto seen = [&](int64_t begin, int64_t end) {
    barriers.begin();
    work(begin, end);
    barriers.end();
  };
  at::parallel_for(0, count, /*grain_size=*/1, seen);
#else
  at::parallel_for(0, count, /*grain_size=*/1, work);
#endif
}

}  // namespace rtfx
