#include "harness/run/session.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/run/make_records.h"
#include "harness/run/provenance.h"
#include "speech/runtime/build.h"
#include "speech/runtime/stages.h"

namespace rtfx {

Progress::Progress(int64_t steps, Clock::duration between_lines)
    : steps_(std::max<int64_t>(1, steps)),
      terminal_(isatty(STDERR_FILENO) == 1),
      between_lines_(between_lines) {}

Progress::~Progress() { clear(); }

void Progress::label(const std::string& label) {
  const std::string text = printable(label);
  const bool is_new = text != label_;
  label_ = text;
  if (terminal_)
    draw();
  else if (is_new)
    print_line();
}

void Progress::advance(int64_t steps) {
  done_ = std::min(steps_, done_ + steps);
  constexpr auto kRedraw = std::chrono::milliseconds(100);
  if (Clock::now() - shown_ < (terminal_ ? kRedraw : between_lines_)) return;
  if (terminal_)
    draw();
  else
    print_line();
}

std::string Progress::time_left() const {
  if (done_ == 0) return "--:--";
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  const auto left = static_cast<int64_t>(elapsed / static_cast<double>(done_) *
                                         static_cast<double>(steps_ - done_));
  return fmt::format("{:02}:{:02}", left / 60, left % 60);
}

void Progress::print_line() {
  shown_ = Clock::now();
  const std::string left = done_ == 0 ? "" : ", " + time_left() + " left";
  print_message("[{}/{}] {}{}\n", done_, steps_, label_, left);
}

void Progress::draw() {
  shown_ = Clock::now();
  constexpr int64_t kWidth = 24;
  constexpr size_t kMostOfLabel = 46;  // columns; the end of a label has batch and type
  const auto filled = static_cast<size_t>(kWidth * done_ / steps_);
  print_message("\r\033[K[{}{}] {:3}% {} left  {}", std::string(filled, '#'),
                std::string(kWidth - filled, ' '), 100 * done_ / steps_, time_left(),
                shortened(label_, kMostOfLabel));
}

void Progress::clear() {
  if (terminal_) print_message("\r\033[K");
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kToCome{5}, kAtBarrier{60};
constexpr std::chrono::seconds kToLeave{10};
constexpr std::chrono::seconds kToEnd{3};  // wait of shard 0 for the others at the end
// time between heartbeats, and longest time without one
constexpr std::chrono::seconds kBetween{1}, kSilent{10};

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// Returns, for example, "process 4711 on node7".
std::string this_process() {
  std::array<char, 256> name{};
  const bool known = gethostname(name.data(), name.size() - 1) == 0;
  return fmt::format("process {} on {}", getpid(), known ? name.data() : "an unknown host");
}

/// Returns the number behind the last slash of a text; 0 if the text is empty.
int64_t number_at_end(const std::string& text) {
  return text.empty() ? 0 : std::stoll(text.substr(text.rfind('/') + 1));
}

}  // namespace

struct Rendezvous::State {
  /// Hides LibTorch's warnings while it exists.
  class QuietLibTorch {
   public:
    QuietLibTorch() : level_(std::exchange(FLAGS_caffe2_log_level, kErrors)) {}
    ~QuietLibTorch() { FLAGS_caffe2_log_level = level_; }
    QuietLibTorch(const QuietLibTorch&) = delete;
    QuietLibTorch& operator=(const QuietLibTorch&) = delete;

   private:
    static constexpr int kErrors = 2;
    int level_;
  };

  /// Counts up a key of the store while it exists, even during a long round of the shard.
  class Heartbeat {
   public:
    /// `store` must be a client of its own, because the shard's client is in use while it waits.
    Heartbeat(c10::intrusive_ptr<c10d::Store> store, const std::string& key)
        : thread_([store = std::move(store), key](const std::stop_token& stop) {
            std::mutex mutex;
            std::unique_lock lock(mutex);
            std::condition_variable_any sleep;
            try {
              while (!stop.stop_requested()) {
                store->add(key, 1);
                sleep.wait_for(lock, stop, kBetween, [] { return false; });
              }
            } catch (
                const std::exception&) {  // the store has ended, which the next barrier reports
            }
          }) {}

   private:
    std::jthread thread_;
  };

  /// The heartbeat of another shard when it was last read.
  struct SeenHeartbeat {
    int64_t count = 0;
    Clock::time_point since;  // when the count was first seen
  };

  QuietLibTorch quiet;  // it warns whenever a wait ends, and prints a stack if a store has ended
  Shard shard;
  std::string place;   // prefix of the keys of all runs that meet here, one after the other
  std::string prefix;  // prefix of the keys of this run, which no other run has
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::optional<Heartbeat> own_heartbeat;
  std::map<std::string, SeenHeartbeat> heartbeats;  // indexed by label
  std::string first_process;                        // process of shard 0
  bool has_begun = false;                           // all shards of this run have come

  /// Opens the store, in which shard 0 listens unless the launcher does.
  void connect() {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(shard.port);
    options.isServer = shard.index == 0 && !shard.launcher_listens;
    options.waitWorkers = false;
    options.timeout = kToCome;
    try {
      store = c10::make_intrusive<c10d::TCPStore>(shard.host, options);
    } catch (const c10::Error& e) {
      throw error(fmt::format("the shards do not meet: {}", e.what_without_backtrace()),
                  "start all of them; MASTER_ADDR and MASTER_PORT say where shard 0 listens");
    }
  }

  std::string key(const std::string& name) const { return prefix + name; }

  /// Tells all runs that meet here, including those with other settings.
  void say(const std::string& name, const std::string& text) {
    store->set(place + name, bytes(text));
  }

  /// Returns the last message; empty if there is none.
  std::string said(const std::string& name) {
    if (!store->check({place + name})) return "";
    const auto text = store->get(place + name);
    return {text.begin(), text.end()};
  }

  /// Begins to use the keys of a run, and says there which process this shard is.
  void enter(const std::string& run) {
    prefix = place + run + "/";
    store->set(key("process/" + shard.label()), bytes(this_process()));
  }

  /// Returns whether the shard of this number has left the run, at its end.
  bool has_left(const std::string& run) {
    return store->check({place + run + "/done/" + shard.label()});
  }

  std::string text_of(const std::string& name) {
    const auto text = store->get(key(name));
    return {text.begin(), text.end()};
  }

  /// Stores why the run ends, unless there is a cause already. So all shards name the first cause.
  void keep_cause(const std::string& cause) { store->compareSet(key("left"), {}, bytes(cause)); }

  /// Finds shards that have come and then had no heartbeat for ten seconds. A slow shard has a
  /// heartbeat, since a thread of its own sends it.
  void check_heartbeats() {
    const auto now = Clock::now();
    Shard other = shard;
    for (other.index = 0; other.index < shard.count; ++other.index) {
      if (other.index == shard.index) continue;
      const std::string label = other.label();
      const int64_t count = store->add(key("heartbeat/" + label), 0);
      SeenHeartbeat& seen = heartbeats[label];
      if (count != seen.count) seen = {count, now};
      if (count == 0 || now - seen.since < kSilent) continue;
      keep_cause(fmt::format("shard {} has ended: no heartbeat of its {} for {} s", label,
                             text_of("process/" + label), kSilent.count()));
      store->set(key("done/" + label), bytes("1"));  // nobody waits for it
    }
  }

  /// Returns whether the key appears within a second.
  bool wait(const std::string& name) {
    try {
      store->wait({key(name)}, std::chrono::seconds(1));
      return true;
    } catch (const c10::DistStoreError&) {
      return false;
    }
  }

  UserError error(const std::string& what, const std::string& remedy) const {
    return UserError("--shard " + shard.label(),
                     fmt::format("{} ({}:{})", what, shard.host, shard.port), remedy);
  }
};

Rendezvous::Rendezvous(const Shard& shard, const std::string& run)
    : state_(std::make_unique<State>()) {
  state_->shard = shard;
  const auto restarts = process_environment()("TORCHELASTIC_RESTART_COUNT").value_or("0");
  const std::string own = fmt::format("{}/{}", run, shard.count);
  state_->place = fmt::format("rtfx/{}/", restarts);
  state_->connect();
  shard.index == 0 ? announce(own) : join(own);
  state_->own_heartbeat.emplace(state_->store->clone(), state_->key("heartbeat/" + shard.label()));
  Shard first = shard;
  first.index = 0;
  state_->first_process = state_->text_of("process/" + first.label());
  try {
    meet("begin", kToCome);
  } catch (...) {
    if (shard.index == 0) announce_no_run();
    throw;
  }
  state_->has_begun = true;
}

void Rendezvous::announce(const std::string& own) {
  const std::string run = fmt::format("{}/{}", own, state_->store->add(state_->place + "runs", 1));
  state_->enter(run);
  state_->say("refused", "");
  state_->say("run", run);
}

void Rendezvous::announce_no_run() {
  try {
    state_->say("run", "");
  } catch (const std::exception&) {  // the store has gone, so that nobody can join
  }
}

void Rendezvous::join(const std::string& own) {
  const std::string used = "used/" + state_->shard.label();  // the number of this shard's last run
  int64_t last = number_at_end(state_->said(used));
  const auto begin = Clock::now();
  auto other_since = Clock::time_point::max();  // since when shard 0 has been in another run
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    check_interrupt();
    std::string theirs;
    try {
      theirs = state_->said("run");
    } catch (const c10::Error&) {
      if (last == 0) throw state_->error("shard 0 has ended", "start all of them again");
      state_->connect();  // the store of this shard's last run has ended with that
      last = 0;
      continue;
    }
    const int64_t number = number_at_end(theirs);
    const bool is_known = number <= last;  // a shard of this number has been in that run
    const bool is_own = theirs == fmt::format("{}/{}", own, number);
    const auto now = Clock::now();
    if (!is_known && is_own) {
      state_->say(used, std::to_string(number));
      return state_->enter(theirs);
    }
    // Shard 0 has not begun a run since. If the known run goes on, this shard is a stray one.
    if (theirs.empty() || (is_known && (is_own || state_->has_left(theirs))))
      other_since = Clock::time_point::max();
    else
      other_since = std::min(other_since, now);
    if (now - begin > kToCome) throw state_->error("shard 0 did not come", "start all of them");
    if (other_since != Clock::time_point::max() && now - other_since > kToEnd) break;
  }
  state_->say("refused", state_->shard.label());
  throw state_->error(
      "the configuration, --output, --force, --resume or the number of shards is not that of "
      "shard 0",
      "start all shards with the same settings, in the same working folder");
}

Rendezvous::~Rendezvous() {
  const Shard& shard = state_->shard;
  try {
    if (shard.index > 0) {
      state_->store->set(state_->key("done/" + shard.label()), bytes("1"));
      return;
    }
    state_->say("run", "");
    const auto begin = Clock::now();
    for (Shard other = shard; ++other.index < shard.count;) {
      while (!state_->store->check({state_->key("done/" + other.label())})) {
        if (Clock::now() - begin > kToLeave) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  } catch (const std::exception&) {  // the store has gone, together with those who would wait
  }
}

void Rendezvous::barrier(const std::string& name) { meet(name, kAtBarrier); }

void Rendezvous::meet(const std::string& name, std::chrono::minutes limit) {
  const auto begin = Clock::now();
  // nobody has read heartbeats meanwhile
  for (auto& [label, seen] : state_->heartbeats) seen.since = begin;
  try {
    if (state_->store->add(state_->key(name + "/came"), 1) == state_->shard.count)
      state_->store->set(state_->key(name + "/open"), bytes("1"));
    while (!state_->wait(name + "/open")) {
      check_interrupt();
      // If a shard is refused after the begin, it belongs to another run.
      const std::string other = state_->has_begun ? "" : state_->said("refused");
      if (!other.empty()) {
        throw state_->error("shard " + other + " has other settings or another number of shards",
                            "start all shards with the same settings");
      }
      state_->check_heartbeats();
      if (state_->store->check({state_->key("left")}))
        throw state_->error(state_->text_of("left"), "--resume continues the journals");
      if (Clock::now() - begin > limit) {
        throw state_->error(fmt::format("not all shards came to '{}'", name),
                            "start all of them; if one has ended, end the others, and --resume");
      }
    }
  } catch (const c10::Error&) {
    throw state_->error(
        fmt::format("shard 0 has ended: its {} no longer answers", state_->first_process),
        "--resume continues the journals");
  }
}

void Rendezvous::leave(const std::string& reason) noexcept {
  try {
    state_->keep_cause(fmt::format("shard {} left: {}", state_->shard.label(), reason));
  } catch (const std::exception&) {  // the others notice it at their next barrier
  }
}

Session::Session(const Config& config, const SessionOptions& options)
    : scope_(config.threads, config.device, "device"),
      inputs_(config),
      plan_(make_plan(config, inputs_.kinds())),
      options_(options),
      journal_(config.output, options.mode, options.journal, /*resumable=*/!options.profiled),
      records_(read_journal(journal_.path())) {}

bool Session::run(const std::function<void()>& work, const char* remark) {
  try {
    if (const std::string warning = build_warning(); !warning.empty())
      print_message("rtfx: warning: {}\n", warning);
    inputs_.read_audio_files();
    inputs_.keep(options_.shard);
    if (with_notices()) inputs_.print_notices();
    const record::Provenance provenance = provenance_record(inputs_, device(), utc_now());
    provenance_id_ = *provenance.provenance_id;
    append(provenance);
    work();
    return true;
  } catch (const Interrupted&) {
    print_message("\nrtfx: interrupted; {}\n", remark);
    return false;
  }
}

void Session::append(record::Any record) {
  record::CommonFields& head = record::common_fields(record);
  if (options_.profiled) head.profiled = true;
  head.provenance_id = provenance_id_;
  journal_.append(record);
  records_.push_back(std::move(record));
}

void Session::append_failure(const CaseGroup& group, const Arm& arm, const std::string& stage,
                             const std::string& message) {
  append(failure_record(inputs_, group, arm, device(), stage, message));
}

}  // namespace rtfx
