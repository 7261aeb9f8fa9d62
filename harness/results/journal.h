// The append-only journal of a run (docs/journal.md): a crash loses at most the record in flight.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"
#include "harness/results/records.h"

namespace rtfx {

/// Renames a file or folder, if it exists, to <name>.1 or the first free number behind that.
void set_aside(const std::filesystem::path& path);

class Journal {
 public:
  enum class Mode {
    fresh,   // an existing journal with records is an error
    resume,  // append
    child,   // append beside the process that holds the lock and has started this one
    force,   // an existing journal is kept under another name (<name>.1, ...)
  };

  /// Opens folder/name, and makes the folder if necessary. Locks it for this process until the end
  /// (advisory lock). Cuts off a torn last line, and ends a whole one that lacks its line break.
  /// Throws UserError, also if another process holds the lock, and if a journal to append to is
  /// packed. `resumable` says whether the command has --resume, which the error for a full disk
  /// then names.
  Journal(const std::filesystem::path& folder, Mode mode, const std::string& name = "journal.jsonl",
          bool resumable = true);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Appends one line by one write. If that fails (disk full), the file is cut back to its last
  /// whole record, and the UserError names file and remedy.
  void append(const nlohmann::json& record);
  template <class Record>
  requires requires(const Record& r) { record::to_line(r); }
  void append(const Record& record) { append_line(record::to_line(record)); }
  /// Writes the file to the disk.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  void open_file(bool alone);
  void end_last_line();
  void append_line(const std::string& line);
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  bool resumable_;
  Descriptor file_;
};

/// Returns all whole records of plain_or_gzip(path) (base/files.h). A torn last line is ignored;
/// any other line that record::read_line() refuses is a UserError.
record::Records read_journal(const std::filesystem::path& path);

/// Calls the function with each record, so that a long journal need not be held in memory.
void read_journal(const std::filesystem::path& path,
                  const std::function<void(record::Any&& record)>& add);

/// Returns the name of a journal's file without ".jsonl" or ".jsonl.gz". Pages and tables that are
/// made from the journal have this name.
std::string journal_name(const std::filesystem::path& path);

}  // namespace rtfx
