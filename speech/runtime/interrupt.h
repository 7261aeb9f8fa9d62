// Ctrl-C: the first one asks the run to stop after the batch in flight, the second one ends it.
#pragma once

#include <exception>

namespace rtfx {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// Handles SIGINT and SIGTERM from now on; a file-size limit becomes an error of write(2).
struct InterruptWatch {
  InterruptWatch();
};

/// Throws Interrupted once a signal has come.
void check_interrupt();

}  // namespace rtfx
