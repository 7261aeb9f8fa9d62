#include "models/parallel.h"

#include <ATen/Parallel.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

#include <exception>
#include <mutex>
#endif

#ifdef __SANITIZE_THREAD__
/// Suppresses reports about LibTorch's own part of a parallel region, which is compiled into this
/// file.
extern "C" const char* __tsan_default_suppressions() { return "race_top:ATen/Parallel\n"; }
#endif

namespace rtfx {

#ifdef __SANITIZE_THREAD__
// The thread sanitizer does not see libgomp's barriers. The acquire and release calls tell it that
// all work comes after earlier code and before later code. LibTorch passes exceptions on after its
// barriers, so they are kept here.
void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work,
                     int64_t grain) {
  static char begun, done;
  static std::mutex mutex;
  std::exception_ptr thrown;
  const auto seen = [&](int64_t begin, int64_t end) {
    __tsan_acquire(&begun);
    try {
      work(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
    __tsan_release(&done);
  };
  __tsan_release(&begun);
  at::parallel_for(0, count, grain, seen);
  __tsan_acquire(&done);
  if (thrown) std::rethrow_exception(thrown);
}
#else
void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work,
                     int64_t grain) {
  at::parallel_for(0, count, grain, work);
}
#endif

}  // namespace rtfx
