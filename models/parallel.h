// Work of several rows on the threads of the CPU.
#pragma once

#include <cstdint>
#include <functional>

namespace rtfx {

/// work(begin, end) for ranges that are 0..count together, each on a thread of LibTorch's pool; on
/// the calling thread alone where `count` is at most `grain`, or within another such call. Throws
/// what it throws. There are at most count / grain ranges, rounded up.
void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work,
                     int64_t grain = 1);

}  // namespace rtfx
