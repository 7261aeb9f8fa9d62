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

// The progress of a long run. On a terminal it is a bar with the remaining time. Elsewhere it is a
// line for each case, and one each minute.

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `steps` is the total number of calls of advance(). `between_lines` is the shortest time
  /// between two lines where no bar can be drawn.
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

// The meeting point of the shards of a run: LibTorch's TCPStore, as torchrun uses it. Each shard
// increases a counter there every second as its heartbeat, so that the others notice its end.

class Rendezvous {
 public:
  /// Waits for all shards. Shard 0 listens, unless the launcher does. Shards of one run have the
  /// same `run`. Runs that meet at the same address one after the other are numbered, so they may
  /// have it too. Throws UserError if shard 0 has been in another run for three seconds, or if not
  /// all shards come within five minutes.
  Rendezvous(const Shard& shard, const std::string& run);
  /// Shard 0 waits until no other shard needs the store, for at most ten seconds.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Returns when every shard has called it with this name, which can be used once. Throws
  /// UserError if a shard has left, if it has had no heartbeat for ten seconds, or if not all come
  /// within an hour. Throws Interrupted after Ctrl-C.
  void barrier(const std::string& name);

  /// Tells the others that this shard ends early. They throw at their next barrier. If several
  /// shards leave, the others learn the first reason, which caused the rest.
  void leave(const std::string& reason) noexcept;

 private:
  struct State;
  void announce(const std::string& own);
  /// Says that shard 0 has left its run, so that no early shard joins it. Throws nothing.
  void announce_no_run();
  void join(const std::string& own);
  void meet(const std::string& name, std::chrono::minutes limit);

  std::unique_ptr<State> state_;
};

struct SessionOptions {
  Journal::Mode mode = Journal::Mode::fresh;
  std::string journal = "journal.jsonl";
  Shard shard = {};
  bool profiled = false;     // marks every record as one of `rtfx profile`
  bool with_notices = true;  // prints notices about models, audio and batches
};

class Session {
 public:
  /// Reads checkpoints, makes the plan, opens the journal and begins to watch for signals. While
  /// the session lives, this thread uses the configuration's device and its number of CPU threads.
  /// Throws UserError.
  explicit Session(const Config& config, const SessionOptions& options);

  LoadedInputs& inputs() { return inputs_; }
  const Config& config() const { return inputs_.config(); }
  const std::vector<CaseGroup>& plan() const { return plan_; }
  at::Device device() const { return scope_.device(); }
  Journal& journal() { return journal_; }
  /// The records of the journal, including those of earlier invocations.
  const record::Records& records() const { return records_; }

  /// Returns SessionOptions::with_notices.
  bool with_notices() const { return options_.with_notices; }

  /// Reads all audio into memory, writes the provenance into the journal, and calls `work`. Returns
  /// false after an interrupt, which it reports on stderr together with `remark`.
  bool run(const std::function<void()>& work,
           const char* remark = "the journal is whole, --resume continues it");

  /// Returns the records of one kind, including those of earlier invocations.
  template <class Record>
  std::vector<Record> records_of() const {
    std::vector<Record> list;
    for (const record::Any& record : records_) {
      if (const auto* found = std::get_if<Record>(&record)) list.push_back(*found);
    }
    return list;
  }

  /// Appends the record to the journal, with the id of the provenance.
  void append(record::Any record);
  void append_failure(const CaseGroup& group, const Arm& arm, const std::string& stage,
                      const std::string& message);

 private:
  InterruptWatch watch_;
  DeviceScope scope_;
  LoadedInputs inputs_;
  std::vector<CaseGroup> plan_;
  SessionOptions options_;
  Journal journal_;
  record::Records records_;
  std::string provenance_id_;
};

}  // namespace rtfx
