// Every test here gives damaged copies of a file to a reader, which reads them or refuses them by a
// UserError. Any other exception, a crash, a hang, or more memory or time than a bound is a
// failure. By default half of the copies that a test asks for are tried. RTFX_MUTATIONS=10 in the
// environment tries ten times as many as it asks for.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/mutations/mutator.h"

namespace rtfx {

#ifdef __SANITIZE_ADDRESS__
constexpr double kMostMib = 4000;  // includes freed memory that the sanitizer keeps
constexpr double kMostSeconds = 60;
#else
constexpr double kMostMib = 700;    // beyond what the process has before the first copy
constexpr double kMostSeconds = 5;  // of CPU, for one copy
#endif
constexpr unsigned kHangSeconds = 120;  // by the clock, on a machine that does other work too

/// Returns the value of a line of /proc/self/status in MiB.
inline double memory_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

/// The peak memory since this object was made, beyond the memory in use at that time.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts anew
    before_ = memory_mib("VmRSS");
  }
  double mib() const { return memory_mib("VmHWM") - before_; }

 private:
  double before_ = 0;
};

inline double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline int scaled(int count) {
  const char* const factor = std::getenv("RTFX_MUTATIONS");
  return factor == nullptr ? count / 2 : static_cast<int>(count * std::stod(factor));
}

struct Counts {
  int read = 0, refused = 0;
};

/// Applies `use` to `count` damaged copies of `bytes`. `repair` corrects parts of each copy, such
/// as a checksum, which would otherwise get it refused too early.
template <class Use, class Repair>
Counts mutate(const std::string& bytes, const std::vector<std::pair<size_t, size_t>>& structure,
              int count, Use use, Repair repair) {
  Mutator mutator(/*seed=*/1, structure);
  Counts counts;
  const PeakMemory peak;
  double longest = 0;
  static volatile std::sig_atomic_t current = 0;
  std::signal(SIGALRM, [](int) {
    std::printf("mutation %d hangs\n", static_cast<int>(current));
    std::abort();
  });
  for (int i = 0; i < scaled(count); ++i) {
    current = i;
    std::string damaged = mutator(bytes);
    repair(damaged);
    // Keeps the copy that is being read, for the case that it crashes the reader.
    if (const char* const keep = std::getenv("RTFX_KEEP_MUTATION"))
      std::ofstream(keep, std::ios::binary) << damaged;
    const double begin = cpu_seconds();
    ::alarm(kHangSeconds);
    try {
      use(damaged);
      ++counts.read;
    } catch (const UserError&) {
      ++counts.refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << i << ": " << error.what();
      break;
    }
    ::alarm(0);
    longest = std::max(longest, cpu_seconds() - begin);
  }
  ::alarm(0);
  EXPECT_LT(peak.mib(), kMostMib);
  EXPECT_LT(longest, kMostSeconds);
  fmt::print("{} read, {} refused, {:.0f} MiB, {:.2f} s at most\n", counts.read, counts.refused,
             peak.mib(), longest);
  std::fflush(stdout);
  return counts;
}

template <class Use>
Counts mutate(const std::string& bytes, const std::vector<std::pair<size_t, size_t>>& structure,
              int count, Use use) {
  return mutate(bytes, structure, count, use, [](std::string&) {});
}

}  // namespace rtfx
