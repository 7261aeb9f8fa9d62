// Identifies the CPU and its present speed. Product names such as "AMD EPYC" do not tell machines
// apart.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace rtfx {

struct CpuIdentity {
  std::optional<int64_t> family, model_number, stepping, cache_kib;
  std::optional<double> clock_mhz;  // highest clock, if the kernel tells it
  /// Signature of the hypervisor, such as "KVMKVMKVM"; none without one.
  std::optional<std::string> hypervisor;
};

/// Returns the first CPU in the text of /proc/cpuinfo, without clock and hypervisor.
CpuIdentity read_cpuinfo(std::istream& cpuinfo);

/// Returns the CPU of this machine.
CpuIdentity cpu_identity();

/// Returns the milliseconds of a fixed chain of integer operations on this thread's CPU, the best
/// of fifteen times. Every operation waits for the one before. So the time corresponds to a fixed
/// number of clock cycles, and depends little on the compiler. The call takes about 30 ms.
double calibration_ms();

}  // namespace rtfx
