// Where the shards of a run meet: LibTorch's TCPStore, which torchrun brings along.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "harness/run/shard.h"

namespace rtfx {

class Rendezvous {
 public:
  /// Waits for all shards. Shard 0 listens, unless the launcher does. `run` tells runs apart that
  /// meet at the same place. Throws UserError when not all come within five minutes.
  Rendezvous(const Shard& shard, const std::string& run);
  /// Shard 0 waits until the others need it no more, at most ten seconds.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Returns when every shard has called it with this name; a name serves once. Throws UserError
  /// when a shard has left or not all come within an hour, Interrupted after Ctrl-C.
  void barrier(const std::string& name);

  /// Tells the others that this shard ends early; they throw at their next barrier.
  void leave(const std::string& reason) noexcept;

 private:
  struct State;
  void meet(const std::string& name, std::chrono::minutes limit);

  std::unique_ptr<State> state_;
};

}  // namespace rtfx
