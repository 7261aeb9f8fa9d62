// The prediction of queueing theory for a server: M/D/1, with random (Poisson) arrivals and one
// server that takes equal time for each (Kleinrock, "Queueing Systems", vol. 1, 1975). Numbers in,
// numbers out.
#pragma once

#include <optional>

namespace rtfx {

/// Mean time from arrival to completion. `service`: seconds for one; `rate`: arrivals per second.
///   service + rho * service / (2 (1 - rho)),  rho = rate * service
/// nullopt where rho >= 1: the queue grows without end.
std::optional<double> md1_total(double service, double rate);

}  // namespace rtfx
