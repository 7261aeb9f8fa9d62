// The append-only journal of a run (docs/journal.md): a crash loses at most the record in flight.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rtfx {

class Journal {
 public:
  enum class Mode {
    fresh,   // an existing journal with records is an error
    resume,  // append
    child,   // append, beside the process that holds the lock and has started this one
    force,   // an existing journal is kept under another name (<name>.1, ...)
  };

  /// Opens folder/name, making the folder, and keeps it for this process alone (advisory lock, held
  /// until the end). A torn last line is cut off. Throws UserError, also where another process has
  /// it.
  Journal(const std::filesystem::path& folder, Mode mode,
          const std::string& name = "journal.jsonl");
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// One line, one write. On failure (disk full) the file is cut back to its last whole record and
  /// UserError names file and remedy.
  void append(const nlohmann::json& record);
  /// To the disk.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Descriptor {
    int number = -1;
    ~Descriptor();
  };
  void open_file(bool alone);

  std::filesystem::path path_;
  Descriptor file_;
};

/// Returns all whole records of plain_or_gzip(path) (base/files.h). A torn last line is
/// ignored; any other line that is not JSON, or that lacks what its kind has (check_record), is a
/// UserError.
std::vector<nlohmann::json> read_journal(const std::filesystem::path& path);

/// Returns the name of a journal's file without ".jsonl" or ".jsonl.gz"; pages and tables that are
/// made of the journal bear it.
std::string journal_name(const std::filesystem::path& path);

// Whether a record of a journal is what its table says (harness/results/records.h).

/// Throws UserError(where) naming the first field that is missing or of another type, or a name in
/// the record that rtfx does not know. Records of other kinds, and fields that no table lists, may
/// hold anything.
void check_record(const nlohmann::json& record, const std::string& where);

/// Checks a line of a hypotheses file.
void check_hypothesis(const nlohmann::json& line, const std::string& where);

}  // namespace rtfx
