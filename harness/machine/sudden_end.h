// Handles ends of the program that nothing can catch: a plug-in calls exit(), a crash, a call that
// never returns. The program still names the work under way, and its exit code is not 0.
// Also has the wait policy of OpenMP's threads (wait_policy()).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace rtfx {

/// After this call, a crash names the work under way before the signal ends the process. Builds
/// with sanitizers have handlers of their own, and do not do this. Two further errors name it too:
/// a mapped file that was shortened, and shared memory that is full.
void name_crashes();

/// Sets the work under way, such as "case x, decode", and what the user can do about a sudden end
/// of it. Until the next call, an exit() or _exit() other than end_suddenly() counts as a sudden
/// end. An empty text means that nothing is under way, and that exit() is allowed.
void set_under_way(std::string_view what, std::string_view remedy = {});

/// Restores the work under way at its construction when it is destroyed.
class UnderWayScope {
 public:
  UnderWayScope();
  ~UnderWayScope();
  UnderWayScope(const UnderWayScope&) = delete;
  UnderWayScope& operator=(const UnderWayScope&) = delete;

 private:
  std::string what_, remedy_;
};

/// Prints "rtfx: error: what is under way: why; remedy" to standard error, and ends the process
/// with kFailed. Runs no destructor. May be called from any thread.
[[noreturn]] void end_suddenly(std::string_view why);

/// A thread that waits for a call to return.
class Watchdog {
 public:
  /// `bark` is called on the watchdog's thread when the time that set() gave has passed.
  explicit Watchdog(std::function<void()> bark);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Restarts the timer with so many seconds, or stops it with none.
  void set(std::optional<double> seconds);

 private:
  using Clock = std::chrono::steady_clock;

  void wait();

  std::function<void()> bark_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> deadline_;
  bool ended_ = false;
  std::thread thread_;
};

// How threads of OpenMP wait for each other: they spin, which takes the CPU from other programs, or
// they wait in the kernel.

/// Returns the wait policy of this process in terms of OpenMP's variables: "passive", "active",
/// "GOMP_SPINCOUNT=1000". Returns "default" if nothing sets it.
std::string wait_policy();

/// Makes the wait policy passive, unless the user has set one of these variables. It is made for
/// .preinit_array, which runs before the program and its libraries. Only a program may have one,
/// not a library.
void make_waits_passive(int count, char** arguments, char** environment);

}  // namespace rtfx
