#include "harness/run/session.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "harness/run/provenance.h"
#include "harness/run/record.h"
#include "harness/run/shard_watch.h"
#include "speech/runtime/build.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

/// The end, which says batch and type, where the whole has no room.
std::string shortened(const std::string& label) {
  constexpr size_t kMost = 46;
  if (label.size() <= kMost) return label;
  size_t begin = label.size() - kMost + 1;
  while (begin < label.size() && (static_cast<unsigned char>(label[begin]) & 0xC0) == 0x80) ++begin;
  return "…" + label.substr(begin);
}

}  // namespace

Progress::Progress(int64_t steps)
    : steps_(std::max<int64_t>(1, steps)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::label(const std::string& label) {
  const std::string text = printable(label);
  if (!terminal_ && text != label_) fmt::print(stderr, "[{}/{}] {}\n", done_, steps_, text);
  label_ = text;
  draw();
}

void Progress::advance(int64_t steps) {
  done_ = std::min(steps_, done_ + steps);
  constexpr auto kRedraw = std::chrono::milliseconds(100);
  if (Clock::now() - drawn_ > kRedraw) draw();
}

void Progress::draw() {
  if (!terminal_) return;
  drawn_ = Clock::now();
  constexpr int64_t kWidth = 24;
  const auto filled = static_cast<size_t>(kWidth * done_ / steps_);
  const double elapsed = std::chrono::duration<double>(drawn_ - begin_).count();
  const auto left = done_ == 0 ? 0
                               : static_cast<int64_t>(elapsed / static_cast<double>(done_) *
                                                      static_cast<double>(steps_ - done_));
  const std::string time = done_ == 0 ? "--:--" : fmt::format("{:02}:{:02}", left / 60, left % 60);
  fmt::print(stderr, "\r\033[K[{}{}] {:3}% {} left  {}", std::string(filled, '#'),
             std::string(kWidth - filled, ' '), 100 * done_ / steps_, time, shortened(label_));
  std::fflush(stderr);
}

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kToCome{5}, kAtBarrier{60};
constexpr std::chrono::seconds kToLeave{10};
constexpr std::chrono::seconds kToEnd{3};   // for shard 0, after the others
constexpr std::chrono::seconds kToTell{2};  // for the end of shard 0 to arrive on both connections

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

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct Rendezvous::State {
  Shard shard;
  std::string place;   // of all runs that meet here one after the other, begins their keys
  std::string prefix;  // of this run
  c10::intrusive_ptr<c10d::TCPStore> store;
  bool left = false;
  std::unique_ptr<ShardWatch> watch;      // of shard 0
  std::unique_ptr<WatchedShard> watched;  // of the others; null where they cannot reach the watch

  std::string key(const std::string& name) const { return prefix + name; }

  /// Tells all runs that meet here, also those with other settings.
  void say(const std::string& name, const std::string& text) {
    store->set(place + name, bytes(text));
  }

  /// Returns what was told last; empty where nothing was.
  std::string said(const std::string& name) {
    if (!store->check({place + name})) return "";
    const auto text = store->get(place + name);
    return {text.begin(), text.end()};
  }

  /// Stores why the run ends, unless another cause is there already. Returns the one that stays.
  std::string keep_cause(c10d::Store& by, const std::string& cause) const {
    const auto first = by.compareSet(key("left"), {}, bytes(cause));
    return {first.begin(), first.end()};
  }

  /// Why the run ends; empty while no shard has left.
  std::string cause() {
    if (store->check({key("left")})) {
      const auto text = store->get(key("left"));
      return {text.begin(), text.end()};
    }
    return watched ? watched->cause() : "";
  }

  /// Why the store cannot be reached: what shard 0 has told before it ended.
  std::string cause_of_loss() const {
    const auto begin = Clock::now();
    while (watched && watched->cause().empty() && Clock::now() - begin < kToTell)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return watched ? watched->cause() : "";
  }

  /// Whether the key is there within a second.
  bool wait(const std::string& name) {
    const QuietLibTorch quiet;  // it warns whenever the second has passed
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
  state_->prefix = fmt::format("{}{}/", state_->place, own);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(shard.port);
  options.isServer = shard.index == 0 && !shard.launcher_listens;
  options.waitWorkers = false;
  options.timeout = kToCome;
  try {
    state_->store = c10::make_intrusive<c10d::TCPStore>(shard.host, options);
  } catch (const c10::Error& e) {
    throw state_->error(fmt::format("the shards do not meet: {}", e.what_without_backtrace()),
                        "start all of them; MASTER_ADDR and MASTER_PORT say where shard 0 listens");
  }
  if (shard.index == 0) {
    // A client of its own, because the other one is in use while this shard waits.
    const auto store = state_->store->clone();
    const auto tell_first = [state = state_.get(), store](const std::string& label,
                                                          const std::string& end) {
      try {
        store->set(state->key("done/" + label), bytes("1"));  // nobody waits for it
        return state->keep_cause(*store, end);
      } catch (const std::exception&) {  // the launcher, which keeps the store, has ended
        return end;
      }
    };
    state_->watch = std::make_unique<ShardWatch>(shard, tell_first);
    state_->store->set(state_->key("watch"), bytes(state_->watch->address().text()));
  }
  require_same_run(own);
  if (shard.index > 0) watch_first();
  meet("begin", kToCome);
}

/// Connects this shard to the watch of shard 0.
void Rendezvous::watch_first() {
  const Shard& shard = state_->shard;
  const auto text = state_->store->get(state_->key("watch"));
  const WatchAddress address = WatchAddress::read({text.begin(), text.end()});
  // A launcher's store may be on another host than shard 0.
  std::vector<std::string> hosts = {shard.host, address.host};
  if (shard.launcher_listens) std::swap(hosts.front(), hosts.back());
  state_->watched = WatchedShard::connect(shard, address, hosts);
  if (state_->watched) return;
  fmt::print(stderr,
             "rtfx: notice: --shard {}: no connection to shard 0 at port {} of {}: if one of both "
             "is killed, the other one may wait for an hour\n",
             shard.label(), address.port, fmt::join(hosts, " or "));
}

void Rendezvous::require_same_run(const std::string& own) {
  if (state_->shard.index == 0) {
    state_->say("refused", "");
    return state_->say("run", own);
  }
  const auto begin = Clock::now();
  auto other_since = Clock::time_point::max();  // since when shard 0 has been in another run
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    check_interrupt();
    const std::string theirs = state_->said("run");
    const auto now = Clock::now();
    if (theirs == own) return;
    if (theirs.empty())
      other_since = Clock::time_point::max();
    else
      other_since = std::min(other_since, now);
    if (now - begin > kToCome) throw state_->error("shard 0 did not come", "start all of them");
    if (other_since != Clock::time_point::max() && now - other_since > kToEnd) break;
  }
  state_->say("refused", state_->shard.label());
  throw state_->error(
      "the configuration, the number of shards, --force or --resume is not that of shard 0",
      "start all shards with the same settings");
}

Rendezvous::~Rendezvous() {
  const QuietLibTorch quiet;  // the others may have gone
  const Shard& shard = state_->shard;
  try {
    if (shard.index > 0) {
      // One that left early closes its connection without a word: then shard 0 tells all.
      if (state_->watched && !state_->left) state_->watched->done();
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
  } catch (const std::exception&) {  // the store has gone, with those who would wait
  }
}

void Rendezvous::barrier(const std::string& name) { meet(name, kAtBarrier); }

void Rendezvous::meet(const std::string& name, std::chrono::minutes limit) {
  const auto begin = Clock::now();
  const QuietLibTorch quiet;  // it warns of a store that has ended, with a stack
  try {
    if (state_->store->add(state_->key(name + "/came"), 1) == state_->shard.count)
      state_->store->set(state_->key(name + "/open"), bytes("1"));
    while (!state_->wait(name + "/open")) {
      check_interrupt();
      if (const std::string other = state_->said("refused"); !other.empty()) {
        throw state_->error("shard " + other + " has other settings or another number of shards",
                            "start all shards with the same settings");
      }
      if (const std::string cause = state_->cause(); !cause.empty())
        throw state_->error(cause, "--resume continues the journals");
      if (Clock::now() - begin > limit) {
        throw state_->error(fmt::format("not all shards came to '{}'", name),
                            "start all of them; if one has ended, end the others, and --resume");
      }
    }
  } catch (const c10::Error& e) {
    const std::string cause = state_->cause_of_loss();
    throw state_->error(
        cause.empty() ? fmt::format("lost shard 0: {}", e.what_without_backtrace()) : cause,
        "--resume continues the journals");
  }
}

void Rendezvous::leave(const std::string& reason) noexcept {
  const QuietLibTorch quiet;
  state_->left = true;
  try {
    const std::string text = fmt::format("shard {} left: {}", state_->shard.label(), reason);
    const std::string first = state_->keep_cause(*state_->store, text);
    if (state_->watch) state_->watch->tell(first);
  } catch (const std::exception&) {  // they find out at their next barrier
  }
}

Session::Session(const Config& config, const SessionOptions& options)
    : scope_(config.threads, config.device, "device"),
      workspace_(config),
      plan_(make_plan(config, workspace_.kinds())),
      options_(options),
      journal_(config.output, options.mode, options.journal),
      records_(read_journal(journal_.path())) {}

bool Session::run(const std::function<void()>& work, const char* remark) {
  try {
    if (const std::string warning = build_warning(); !warning.empty())
      fmt::print(stderr, "rtfx: warning: {}\n", warning);
    workspace_.read_audio_files();
    workspace_.keep(options_.shard);
    print_notices();
    const record::Provenance provenance = provenance_record(workspace_, device(), utc_now());
    provenance_id_ = *provenance.provenance_id;
    append(provenance);
    work();
    return true;
  } catch (const Interrupted&) {
    fmt::print(stderr, "\nrtfx: interrupted; {}\n", remark);
    return false;
  }
}

void Session::print_notices() const {
  for (size_t i = 0; i < workspace_.checkpoints().size(); ++i) {
    for (const std::string& notice : workspace_.checkpoints()[i].notices)
      fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(config().models[i].path.string()),
                 printable(notice));
  }
  constexpr size_t kShown = 5;
  for (const LoadedDataset& dataset : workspace_.datasets()) {
    for (size_t i = 0; i < std::min(kShown, dataset.notices.size()); ++i)
      fmt::print(stderr, "rtfx: notice: {}\n", printable(dataset.notices[i]));
    if (dataset.notices.size() > kShown) {
      fmt::print(stderr, "rtfx: notice: ... and {} more like these\n",
                 dataset.notices.size() - kShown);
    }
  }
}

void Session::append(record::Any record) {
  record::Head& head = record::head(record);
  if (options_.profiled) head.profiled = true;
  head.provenance_id = provenance_id_;
  journal_.append(record);
  records_.push_back(std::move(record));
}

void Session::append_failure(const CaseGroup& group, const Arm& arm, const std::string& stage,
                             const std::string& message) {
  append(failure_record(workspace_, group, arm, device(), stage, message));
}

}  // namespace rtfx
