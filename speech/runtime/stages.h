// Passes work through stages, each of which runs on a thread of its own. Also handles Ctrl-C
// (InterruptWatch).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/stop.h"

namespace rtfx {

// Handles Ctrl-C. The first one asks the run to stop after the batch in flight, the second one ends
// it.

/// Handles SIGINT and SIGTERM from construction on. A file-size limit becomes an error of write(2).
struct InterruptWatch {
  InterruptWatch();
};

bool is_interrupted();

/// Throws Interrupted once a signal has come.
void check_interrupt();

struct Stage {
  const char* name;                       // name of its thread
  std::function<void(size_t item)> work;  // called for 0, 1, 2, ... in this order
};

/// Moves items 0, 1, 2, ... through `stages`, as long as `more(item)` returns true. The thread of
/// the first stage calls `more`. At most `in_flight` items are between the begin of their first
/// stage and the end of their last one. Item i may therefore use the memory of item i - in_flight.
/// With one item in flight, everything runs on the calling thread. `enter` is called on each new
/// thread, and its result is destroyed at the thread's end.
///
/// An exception of a stage ends all stages after their current items, and is thrown here. Of
/// several exceptions, the first one is thrown. No thread is left when this returns.
void run_stages(const std::vector<Stage>& stages, size_t in_flight,
                const std::function<bool(size_t item)>& more,
                const std::function<std::shared_ptr<void>()>& enter);

}  // namespace rtfx
