#include "harness/machine/cpu.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace rtfx {
namespace {

/// Returns the integer at the beginning of a text; none if there is none.
std::optional<int64_t> leading_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Returns the signature of the hypervisor; none if the CPU does not report a hypervisor.
std::optional<std::string> hypervisor_signature() {
  constexpr unsigned kHypervisorBit = 1U << 31;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kHypervisorBit) == 0) return std::nullopt;
  __cpuid(0x40000000, a, b, c, d);
  std::array<char, 13> text{};
  std::memcpy(text.data(), &b, 4);
  std::memcpy(text.data() + 4, &c, 4);
  std::memcpy(text.data() + 8, &d, 4);
  std::string signature = text.data();
  const bool plain =
      std::ranges::all_of(signature, [](char sign) { return sign > ' ' && sign < 127; });
  return plain && !signature.empty() ? signature : "unknown";
}

/// Returns MHz; none if the kernel does not control the clock.
std::optional<double> highest_clock() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  double khz = 0;
  return file >> khz ? std::optional(khz / 1000) : std::nullopt;
}

}  // namespace

CpuIdentity read_cpuinfo(std::istream& cpuinfo) {
  CpuIdentity cpu;
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string value = line.substr(colon + 2);
    if (key == "cpu family") cpu.family = leading_integer(value);
    if (key == "model") cpu.model_number = leading_integer(value);
    if (key == "stepping") cpu.stepping = leading_integer(value);
    if (key == "cache size") cpu.cache_kib = leading_integer(value);
  }
  return cpu;
}

CpuIdentity cpu_identity() {
  std::ifstream file("/proc/cpuinfo");
  CpuIdentity cpu = read_cpuinfo(file);
  cpu.clock_mhz = highest_clock();
  cpu.hypervisor = hypervisor_signature();
  return cpu;
}

double calibration_ms() {
  constexpr int kTimes = 15, kSteps = 500'000;
  double best = std::numeric_limits<double>::infinity();
  uint64_t state = 88172645463325252;
  for (int time = 0; time < kTimes; ++time) {
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < kSteps; ++step) {  // Marsaglia's xorshift and a product
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      state *= 2685821657736338717U;
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
    if (state == 0) best = 0;  // never true, which the compiler cannot know
  }
  return std::round(best * 1000) / 1000;
}

}  // namespace rtfx
