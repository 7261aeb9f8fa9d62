#include "harness/run/isolated_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/terminal.h"
#include "harness/machine/sudden_end.h"
#include "harness/results/table.h"
#include "harness/run/case_group.h"
#include "harness/run/outcome.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr int kNotStarted = 127;
// A child writes a line "decoder<TAB>stage" for each stage, and "<TAB>end code" before its end.
constexpr int kStageDescriptor = 3;
constexpr const char* kEnd = "end ";

struct ChildEnd {
  int status = 0;            // status from waitpid
  std::optional<int> code;   // exit code that the child reported
  bool interrupted = false;  // this process passed an interrupt on
  // decoder and stage at its end; without a decoder, a stage of all decoders
  std::string decoder, stage;
  std::set<std::string> told;  // all decoders that the child named
};

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Starts this program with `arguments`. The returned descriptor delivers its stages.
std::pair<pid_t, int> start(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t parent = getpid();
  // Until execv(), the child has our handler, which would take an interrupt that wait_for() passes
  // on. So the interrupt is blocked until the child has the default handler, which ends it.
  sigset_t passed_on, before;
  sigemptyset(&passed_on);
  sigaddset(&passed_on, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &passed_on, &before);
  const pid_t child = fork();
  if (child != 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) fail("fork");
  if (child == 0) {  // only calls that are safe between fork and exec
    std::signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotStarted);
    setpgid(0, 0);  // Ctrl-C on a terminal reaches the parent alone, which passes it on
    if (ends[1] == kStageDescriptor) {
      fcntl(kStageDescriptor, F_SETFD, 0);
    } else {
      dup2(ends[1], kStageDescriptor);
    }
    execv("/proc/self/exe", argv.data());
    _exit(kNotStarted);
  }
  close(ends[1]);
  return {child, ends[0]};
}

/// Takes whole lines of the child's reports from the front of `text`.
void read_lines(std::string& text, ChildEnd& end) {
  for (size_t whole; (whole = text.find('\n')) != std::string::npos; text.erase(0, whole + 1)) {
    const std::string line = text.substr(0, whole);
    const size_t tab = std::min(line.find('\t'), line.size());
    const std::string stage = line.substr(std::min(tab + 1, line.size()));
    if (tab == 0 && stage.starts_with(kEnd)) {
      end.code = std::atoi(stage.c_str() + std::strlen(kEnd));
      continue;
    }
    end.decoder = line.substr(0, tab);
    end.stage = stage;
    end.told.insert(end.decoder);
  }
}

/// Returns whether the child has ended. With `wait`, waits until it ends.
bool has_ended(pid_t child, ChildEnd& end, bool wait) {
  pid_t got = 0;
  while ((got = waitpid(child, &end.status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  return got != 0;
}

/// Reads stages until the child ends, and passes an interrupt on to it.
ChildEnd wait_for(pid_t child, int stages) {
  ChildEnd end;
  std::string text;
  bool ended = false;
  for (char buffer[4096];;) {
    try {
      if (!end.interrupted && !ended) check_interrupt();
    } catch (const Interrupted&) {
      kill(child, SIGTERM);
      end.interrupted = true;
    }
    // A process that a plug-in has left behind may hold the other end of the pipe. Once the child
    // has ended, we therefore read what it wrote last and wait for nothing more.
    pollfd ready{stages, POLLIN, 0};
    if (poll(&ready, 1, /*milliseconds=*/ended ? 0 : 200) <= 0) {
      if (ended) break;
      ended = has_ended(child, end, /*wait=*/false);
      continue;
    }
    const ssize_t count = read(stages, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
    read_lines(text, end);
  }
  close(stages);
  if (!ended) has_ended(child, end, /*wait=*/true);
  return end;
}

/// Returns why a child ended early; empty if it did not. `limit` is the limit of a case in seconds.
std::string reason(const ChildEnd& end, double limit) {
  if (end.code == kDeviceLost) return "the GPU cannot be used any more";
  if (end.code == kCaseOverdue)
    return fmt::format("did not come back: protocol.case_limit_seconds is {:g}", limit);
  if (end.code == kOk) return "";
  if (end.code) return fmt::format("its process ended with code {}", *end.code);
  if (WIFSIGNALED(end.status)) {
    const int signal = WTERMSIG(end.status);
    return fmt::format("its process was ended by signal {} ({}){}", signal, strsignal(signal),
                       signal == SIGKILL ? ": the kernel does that when memory runs out" : "");
  }
  return fmt::format("its process was ended from within (exit code {})", WEXITSTATUS(end.status));
}

/// Runs a child to its end. Throws UserError if it refuses `config`, and Interrupted.
ChildEnd end_of_child(const Config& config, std::vector<std::string> arguments) {
  check_interrupt();
  const auto [child, stages] = start(std::move(arguments));
  ChildEnd end = wait_for(child, stages);
  if (end.interrupted || end.code == kInterrupted) throw Interrupted();
  if (end.code == kUsage)
    throw UserError(config.origins.file().string(), "cannot be run", "see above");
  return end;
}

class Parent {
 public:
  explicit Parent(const Config& config) : config_(config) {}

  /// Throws Interrupted.
  void run_group(int64_t number, const CaseGroup& group) {
    ChildTask task{.group = number, .ended = {}};
    for (;;) {
      const ChildEnd end = end_of_child(config_, arguments(task));
      const std::string why = reason(end, config_.protocol.case_limit_seconds);
      if (why.empty()) return;
      // A child measures no decoder that has ended. It names one when it has recorded the failure.
      for (auto& [id, ended] : task.ended) ended.recorded |= end.told.contains(id);
      const size_t before = task.ended.size();
      for (const PlannedDecoder& decoder : group.decoders) {
        const std::string& id = config_.decoders[decoder.spec].id;
        if (!end.decoder.empty() && id != end.decoder) continue;
        task.ended.try_emplace(id, ChildTask::Ended{end.stage.empty() ? "prepare" : end.stage, why,
                                                    end.code == kDeviceLost && id == end.decoder});
      }
      if (task.ended.size() == before)
        throw std::runtime_error("a child process without any case to run: " + why);
    }
  }

 private:
  std::vector<std::string> arguments(const ChildTask& task) const {
    std::vector<std::string> all = child_arguments(config_, "run");
    all.emplace_back("--resume");
    for (std::string& argument : task.arguments()) all.push_back(std::move(argument));
    return all;
  }

  const Config& config_;
};

/// Opens the journal and runs the groups of the plan. Returns false after an interrupt.
bool run_groups(const Config& config, Journal::Mode mode, const std::vector<CaseGroup>& plan) {
  const Journal journal(config.output, mode);  // the lock covers the children too
  Parent parent(config);
  try {
    for (size_t i = 0; i < plan.size(); ++i) parent.run_group(static_cast<int64_t>(i), plan[i]);
  } catch (const Interrupted&) {
    return false;
  }
  return true;
}

}  // namespace

std::string run_child(const Config& config, std::vector<std::string> arguments) {
  const ChildEnd end = end_of_child(config, std::move(arguments));
  return reason(end, config.protocol.case_limit_seconds);
}

std::vector<std::string> child_arguments(const Config& config, const std::string& command) {
  std::vector<std::string> all = {"rtfx", command, config.origins.file().string()};
  for (const std::string& text : config.origins.overrides()) all.insert(all.end(), {"--set", text});
  return all;
}

std::vector<std::string> ChildTask::arguments() const {
  std::vector<std::string> all = {"--child", std::to_string(group)};
  for (const auto& [id, e] : ended) {
    const json value = {
        {"decoder", id}, {"stage", e.stage}, {"message", e.message}, {"recorded", e.recorded}};
    all.insert(all.end(), {"--ended", to_text(value)});
  }
  return all;
}

void ChildTask::add_ended(const std::string& value) {
  const json e = json::parse(value);
  ended[e.at("decoder")] = {e.at("stage"), e.at("message"), e.at("recorded")};
}

bool measure_isolated(const Config& config, Journal::Mode mode) {
  const InterruptWatch watch;
  return run_groups(config, mode, make_plan(config, LoadedInputs(config).kinds()));
}

int run_isolated(const Config& config, Journal::Mode mode) {
  const InterruptWatch watch;
  const std::vector<CaseGroup> plan = make_plan(config, LoadedInputs(config).kinds());
  const bool whole = run_groups(config, mode, plan);
  const std::vector<CaseSummary> cases =
      cases_of(plan, read_journal(config.output / "journal.jsonl"));
  print_while_read([&] { print_table(all_of(cases)); });
  return whole ? outcome(cases, config) : kInterrupted;
}

void report_stage(const Arm* arm, const char* stage) {
  const std::string line = fmt::format("{}\t{}\n", arm == nullptr ? "" : arm->spec->id, stage);
  [[maybe_unused]] const ssize_t sent = write(kStageDescriptor, line.data(), line.size());
}

void end_child(int code) {
  set_under_way({});
  const std::string line = fmt::format("\t{}{}\n", kEnd, code);
  [[maybe_unused]] const ssize_t sent = write(kStageDescriptor, line.data(), line.size());
  std::_Exit(code);
}

void require_device(c10::Device device) {
  try {
    synchronize(device);
  } catch (const std::exception&) {
    end_child(kDeviceLost);  // destructors would need the device
  }
}

}  // namespace rtfx
