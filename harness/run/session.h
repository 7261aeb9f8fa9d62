// The session of a command that measures: models and data, the device, the folder with the journal,
// and the handling of interrupts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/results/journal.h"
#include "harness/results/records.h"
#include "harness/run/case_group.h"
#include "harness/run/shard.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

// How far a long run is: a bar with the time left on a terminal. Elsewhere it is a line for each
// case, and one each minute.

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `steps`: how many advance() calls make the whole. `between_lines`: how often a step that ends
  /// is told in files and pipes, where a bar cannot be drawn.
  explicit Progress(int64_t steps, Clock::duration between_lines = std::chrono::minutes(1));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void label(const std::string& label);
  void advance(int64_t steps = 1);

 private:
  std::string time_left() const;
  void print_line();
  void draw();
  void clear();

  int64_t steps_, done_ = 0;
  bool terminal_;
  Clock::duration between_lines_;
  std::string label_;
  Clock::time_point begin_ = Clock::now(), shown_{};
};

// Where the shards of a run meet: LibTorch's TCPStore, which torchrun brings along. Each shard
// counts up a key of it every second as its heartbeat, so that the others notice its end.

class Rendezvous {
 public:
  /// Waits for all shards. Shard 0 listens, unless the launcher does. `run` tells runs apart that
  /// meet at the same place, one after the other. Throws UserError when shard 0 has been in another
  /// run for three seconds, or not all come within five minutes.
  Rendezvous(const Shard& shard, const std::string& run);
  /// Shard 0 waits until the others need it no more, at most ten seconds.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Returns when every shard has called it with this name; a name serves once. Throws UserError
  /// when a shard has left, has had no heartbeat for ten seconds, or when not all come within an
  /// hour. Throws Interrupted after Ctrl-C.
  void barrier(const std::string& name);

  /// Tells the others that this shard ends early; they throw at their next barrier. Of several
  /// reasons they learn the first one, which has caused the others.
  void leave(const std::string& reason) noexcept;

 private:
  struct State;
  void require_same_run(const std::string& own);
  void meet(const std::string& name, std::chrono::minutes limit);

  std::unique_ptr<State> state_;
};

struct SessionOptions {
  Journal::Mode mode = Journal::Mode::fresh;
  std::string journal = "journal.jsonl";
  Shard shard = {};
  bool profiled = false;  // marks every record as one of `rtfx profile`
};

class Session {
 public:
  /// Reads checkpoints, makes the plan, opens the journal; from now on signals are watched. While
  /// it lives, this thread is on the configuration's device and takes so many threads as it says.
  /// Throws UserError.
  explicit Session(const Config& config, const SessionOptions& options);

  Workspace& workspace() { return workspace_; }
  const Config& config() const { return workspace_.config(); }
  const std::vector<CaseGroup>& plan() const { return plan_; }
  at::Device device() const { return scope_.device(); }
  Journal& journal() { return journal_; }
  /// The journal's records, also those of earlier invocations.
  const record::Records& records() const { return records_; }

  /// Calls `work` with audio in memory and provenance in the journal. False where an interrupt
  /// ended it, which is said on standard error with `remark`.
  bool run(const std::function<void()>& work,
           const char* remark = "the journal is whole, --resume continues it");

  /// The records of one kind, also those of earlier invocations.
  template <class Record>
  std::vector<Record> records_of() const {
    std::vector<Record> list;
    for (const record::Any& record : records_) {
      if (const auto* found = std::get_if<Record>(&record)) list.push_back(*found);
    }
    return list;
  }

  /// The record goes into the journal with the id of the provenance.
  void append(record::Any record);
  void append_failure(const CaseGroup& group, const Arm& arm, const std::string& stage,
                      const std::string& message);

 private:
  void print_notices() const;

  InterruptWatch watch_;
  DeviceScope scope_;
  Workspace workspace_;
  std::vector<CaseGroup> plan_;
  SessionOptions options_;
  Journal journal_;
  record::Records records_;
  std::string provenance_id_;
};

}  // namespace rtfx
