// Notices within a moment that the process of a shard has ended, however it ended.
//
// Shard 0 listens, and every other shard holds a TCP connection to it, on any host. The kernel
// closes the connections of a process that ends, also after SIGKILL or a crash. A process that is
// slow or stopped keeps its connections, so it is never taken for one that has ended. Nothing is
// sent while the shards measure. A host that loses its power or its network closes nothing; then
// the barriers of Rendezvous end by their time limits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/run/shard.h"

namespace rtfx {

/// "shard 1-of-2 has ended: its process 4711 on node7 is gone", said of this process.
std::string end_of_this_process(const Shard& shard);

/// The place where shard 0 listens, as it tells the others in one line of text.
struct WatchAddress {
  std::string token;  // tells this run's listener from any other one
  std::string host;   // as this host calls itself
  uint16_t port = 0;

  std::string text() const;
  static WatchAddress read(const std::string& text);
};

/// Belongs to shard 0. It has a thread that sleeps until a connection opens or closes.
class ShardWatch {
 public:
  /// Called on the thread of the watch when the connection of a shard closes that has not said that
  /// it is done. `label` is that of the shard, and `what` its end_of_this_process(). Returns the
  /// text that tell() sends.
  using OnEnd = std::function<std::string(const std::string& label, const std::string& what)>;

  /// Throws std::system_error where it cannot listen.
  ShardWatch(const Shard& shard, OnEnd on_end);
  ~ShardWatch();
  ShardWatch(const ShardWatch&) = delete;
  ShardWatch& operator=(const ShardWatch&) = delete;

  const WatchAddress& address() const;
  /// Tells all shards why the run ends. They can read it after this process has ended.
  void tell(const std::string& cause);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Belongs to every other shard. The connection lasts as long as the object.
class WatchedShard {
 public:
  /// Tries the hosts one after the other. Null where none answers as shard 0 within seconds.
  static std::unique_ptr<WatchedShard> connect(const Shard& shard, const WatchAddress& address,
                                               const std::vector<std::string>& hosts);
  ~WatchedShard();
  WatchedShard(const WatchedShard&) = delete;
  WatchedShard& operator=(const WatchedShard&) = delete;

  /// Why the run ends: what shard 0 told, or that shard 0 has ended. Empty while neither is known.
  /// Does not wait.
  std::string cause();
  /// Tells shard 0 that this shard ends as it should.
  void done();

 private:
  explicit WatchedShard(int socket) : socket_(socket) {}
  bool greet(const Shard& shard, const WatchAddress& address);

  int socket_;
  std::string received_, end_of_first_, cause_;
};

}  // namespace rtfx
