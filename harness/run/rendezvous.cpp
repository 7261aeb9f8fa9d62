#include "harness/run/rendezvous.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "speech/runtime/interrupt.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kToCome{5}, kAtBarrier{60};
constexpr std::chrono::seconds kToLeave{10};

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct Rendezvous::State {
  Shard shard;
  std::string prefix;
  c10::intrusive_ptr<c10d::TCPStore> store;

  std::string key(const std::string& name) const { return prefix + name; }

  /// Whether the key is there within a second.
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
  state_->prefix = fmt::format("rtfx/{}/{}/{}/", run, shard.count, restarts);
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
  meet("begin", kToCome);
}

Rendezvous::~Rendezvous() {
  const Shard& shard = state_->shard;
  try {
    if (shard.index > 0) {
      state_->store->set(state_->key("done/" + shard.label()), bytes("1"));
      return;
    }
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
  try {
    if (state_->store->add(state_->key(name + "/came"), 1) == state_->shard.count)
      state_->store->set(state_->key(name + "/open"), bytes("1"));
    while (!state_->wait(name + "/open")) {
      check_interrupt();
      if (state_->store->check({state_->key("left")})) {
        const auto text = state_->store->get(state_->key("left"));
        throw state_->error(std::string(text.begin(), text.end()),
                            "--resume continues the journals");
      }
      if (Clock::now() - begin > limit) {
        throw state_->error(fmt::format("not all shards came to '{}'", name),
                            "start all of them; if one has ended, end the others, and --resume");
      }
    }
  } catch (const c10::Error& e) {
    throw state_->error(fmt::format("lost shard 0: {}", e.what_without_backtrace()),
                        "--resume continues the journals");
  }
}

void Rendezvous::leave(const std::string& reason) noexcept {
  try {
    const std::string text = fmt::format("shard {} left: {}", state_->shard.label(), reason);
    state_->store->set(state_->key("left"), bytes(text));
  } catch (const std::exception&) {  // they find out at their next barrier
  }
}

}  // namespace rtfx
