#include "speech/runtime/interrupt.h"

#include <csignal>

namespace rtfx {
namespace {

volatile std::sig_atomic_t caught = 0;

extern "C" void on_signal(int signal) {
  caught = 1;
  std::signal(signal, SIG_DFL);  // so that a second signal ends the process at once
}

}  // namespace

InterruptWatch::InterruptWatch() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGXFSZ, SIG_IGN);
}

void check_interrupt() {
  if (caught != 0) throw Interrupted();
}

}  // namespace rtfx
