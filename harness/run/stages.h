// Work that passes through stages one after the other, each on a thread of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace rtfx {

struct Stage {
  const char* name;                       // of its thread
  std::function<void(size_t item)> work;  // called for 0, 1, 2, ... in this order
};

/// Takes items 0, 1, 2, ... through `stages`, as long as `more(item)` says that there is one; that
/// is asked on the first stage's thread. At most `in_flight` items are between their first stage's
/// begin and their last stage's end, so that item i may use the memory of item i - in_flight. With
/// one in flight everything runs on the calling thread. `enter`: called on each new thread, and
/// what it returns is destroyed at the thread's end.
///
/// What a stage throws ends all stages after the items that they are at, and is thrown here; of
/// several, what came first. No thread is left when this returns.
void run_stages(const std::vector<Stage>& stages, size_t in_flight,
                const std::function<bool(size_t item)>& more,
                const std::function<std::shared_ptr<void>()>& enter);

}  // namespace rtfx
