// Distributes work over the threads of the CPU.
#pragma once

#include <cstdint>
#include <functional>

namespace rtfx {

/// Calls work(begin, end) for ranges that together cover 0 to count, each on a thread of LibTorch's
/// pool. There are at most count / grain ranges, rounded up. All work runs on the calling thread
/// where `count` is at most `grain`, or within another such call. Throws what `work` throws.
void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work,
                     int64_t grain = 1);

}  // namespace rtfx
