// Which CPU this is, as far as it tells, and how fast it is now: product names such as "AMD EPYC"
// do not tell machines apart.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace rtfx {

struct CpuIdentity {
  std::optional<int64_t> family, model_number, stepping, cache_kib;
  std::optional<double> clock_mhz;        // the highest, where the kernel tells it
  std::optional<std::string> hypervisor;  // its signature, such as "KVMKVMKVM"; none without one
};

/// The first CPU of the text of /proc/cpuinfo, without clock and hypervisor.
CpuIdentity read_cpuinfo(std::istream& cpuinfo);

/// The CPU of this machine.
CpuIdentity cpu_identity();

/// Milliseconds of a fixed chain of integer operations on the CPU of this thread, the best of
/// fifteen times. Every operation waits for the one before, so the time is that of a number of
/// clock cycles and depends little on the compiler. It takes about 30 ms.
double calibration_ms();

}  // namespace rtfx
