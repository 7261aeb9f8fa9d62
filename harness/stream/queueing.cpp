#include "harness/stream/queueing.h"

namespace rtfx {

std::optional<double> md1_total(double service, double rate) {
  const double load = rate * service;
  if (load >= 1) return std::nullopt;
  return service + load * service / (2 * (1 - load));
}

}  // namespace rtfx
