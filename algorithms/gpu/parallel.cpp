#include "algorithms/gpu/parallel.h"

#include <ATen/Parallel.h>

namespace rtfx {

void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work) {
  at::parallel_for(0, count, /*grain_size=*/1, work);
}

}  // namespace rtfx
