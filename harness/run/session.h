// The session of a command that measures: models and data, the device, the folder with the journal,
// and the handling of interrupts.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/journal.h"
#include "harness/results/records.h"
#include "harness/run/case_group.h"
#include "harness/run/progress.h"
#include "speech/runtime/device.h"
#include "speech/runtime/interrupt.h"

namespace rtfx {

struct SessionOptions {
  Journal::Mode mode = Journal::Mode::fresh;
  std::string journal = "journal.jsonl";
  Shard shard = {};
  nlohmann::json marks = nlohmann::json::object();  // fields that every record gets
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
  const std::vector<nlohmann::json>& records() const { return records_; }

  /// Calls `work` with audio in memory and provenance in the journal. False where an interrupt
  /// ended it, which is said on standard error with `remark`.
  bool run(const std::function<void()>& work,
           const char* remark = "the journal is whole, --resume continues it");

  /// Those of one kind, with what earlier invocations have written.
  template <class Record>
  std::vector<Record> records_of() const {
    std::vector<Record> list;
    for (const nlohmann::json& object : records_) {
      record::Any record = record::read(object);
      if (auto* found = std::get_if<Record>(&record)) list.push_back(std::move(*found));
    }
    return list;
  }

  /// The record goes into the journal with the id of the provenance.
  template <class Record>
  void append(const Record& record) {
    append(record::write(record));
  }
  void append(nlohmann::json record);
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
  std::vector<nlohmann::json> records_;
  std::string provenance_id_;
};

}  // namespace rtfx
