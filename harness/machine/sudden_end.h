// Ends of the program that nothing can catch: a plug-in calls exit(), a crash, a call that never
// comes back. They still say what was under way, and the exit code is not 0.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace rtfx {

/// From now on, a crash names what is under way before the signal ends the process (not in builds
/// with sanitizers, which have handlers of their own). A mapped file that was shortened, and shared
/// memory that is full, are errors that name it, too.
void name_crashes();

/// "case x, decode", and what the user can do about a sudden end of it. Until the next call, an
/// exit() or _exit() that is not end_suddenly() becomes one. Empty: nothing is under way, and an
/// exit is in order.
void set_under_way(std::string_view what, std::string_view remedy = {});

/// At its end, what was under way at its begin is so again.
class UnderWayScope {
 public:
  UnderWayScope();
  ~UnderWayScope();
  UnderWayScope(const UnderWayScope&) = delete;
  UnderWayScope& operator=(const UnderWayScope&) = delete;

 private:
  std::string what_, remedy_;
};

/// "rtfx: error: what is under way: why; remedy" on standard error, and the end with kFailed. Runs
/// no destructor; any thread may call it.
[[noreturn]] void end_suddenly(std::string_view why);

/// A thread that waits for a call to come back.
class Watchdog {
 public:
  /// `bark`: called on the watchdog's thread when the time that set() gave has passed.
  explicit Watchdog(std::function<void()> bark);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on so many seconds, in place of what was set before; none: no limit.
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

// Threads of OpenMP that wait for each other: by spinning, which takes the CPU from whoever else
// wants it, or in the kernel.

/// How they wait in this process, in the words of OpenMP's variables: "passive", "active",
/// "GOMP_SPINCOUNT=1000"; "default" where nothing says.
std::string wait_policy();

/// Makes it passive, unless the user has set one of these variables. For .preinit_array, before the
/// first line of the program and of its libraries: a program's alone, no library may have one.
void make_waits_passive(int count, char** arguments, char** environment);

}  // namespace rtfx
