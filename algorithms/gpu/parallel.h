// Work of several rows on the threads of the CPU.
#pragma once

#include <cstdint>
#include <functional>

namespace rtfx {

/// work(begin, end) for ranges that are 0..count together, each on a thread of LibTorch's pool; on
/// the calling thread alone where `count` is 1, or within another such call. Throws what it throws.
void parallel_ranges(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace rtfx
