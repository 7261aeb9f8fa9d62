#include "harness/results/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json_file.h"
#include "base/options.h"
#include "harness/results/record_check.h"

namespace rtfx {
namespace {

constexpr const char* kRemedy = "the journal was edited or damaged";

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EFBIG || error == EDQUOT;
  throw UserError(path.string(), fmt::format("cannot be written: {}", std::strerror(error)),
                  full ? "free some space, then continue with --resume; earlier records are intact"
                       : "check that the folder is writable");
}

/// write(2) until all is written; returns errno, 0 when done.
int write_all(int descriptor, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    done += static_cast<size_t>(n);
  }
  return 0;
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError(path.string(), "cannot be read", "check the path");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Moves an existing journal out of the way.
void set_aside(const std::filesystem::path& path) {
  for (int n = 1;; ++n) {
    const std::filesystem::path other = fmt::format("{}.{}", path.string(), n);
    if (!std::filesystem::exists(other)) return std::filesystem::rename(path, other);
  }
}

}  // namespace

std::string to_line(const nlohmann::json& record) {
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Journal::Journal(const std::filesystem::path& folder, Mode mode, const std::string& name)
    : path_(folder / name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw UserError(folder.string(), "cannot be made: " + error.message(),
                    "choose another --output");
  if (std::filesystem::exists(path_) && std::filesystem::file_size(path_) > 0) {
    if (mode == Mode::fresh) {
      throw UserError(path_.string(), "holds an earlier run",
                      "--resume continues it, --force starts anew and keeps it as journal.jsonl.N");
    }
    if (mode == Mode::force) set_aside(path_);
  }
  descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path_, errno);
  const std::string text = read_all(path_);
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is no line break, as npos + 1 is 0
  if (whole != text.size() && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0)
    fail(path_, errno);
}

Journal::~Journal() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Journal::append(const nlohmann::json& record) {
  struct stat before {};
  if (fstat(descriptor_, &before) != 0) fail(path_, errno);
  const int error = write_all(descriptor_, to_line(record));
  if (error == 0) return;
  // Half a record is of no use. Cutting it off needs no space on the disk; should even that fail,
  // readers ignore a torn last line.
  [[maybe_unused]] const int cut = ftruncate(descriptor_, before.st_size);
  fail(path_, error);
}

void Journal::sync() {
  if (fsync(descriptor_) != 0 && errno != EINVAL) fail(path_, errno);  // EINVAL: not a disk file
}

namespace {

/// What the release before called exactness.verdict is exactness.grade, and the grade of the
/// baseline itself was "reference".
void take_present_names(nlohmann::json& record, const std::filesystem::path& path) {
  const auto rename = [&](nlohmann::json& object) {
    if (!object.is_object() || !object.contains("verdict") || object.contains("grade")) return;
    nlohmann::json grade = std::move(object["verdict"]);
    object.erase("verdict");
    object["grade"] = grade == "reference" ? nlohmann::json("baseline") : std::move(grade);
    notice_once(path.string(),
                "of an earlier release: 'verdict' of a record is now called 'grade'");
  };
  if (record.contains("exactness")) rename(record["exactness"]);
  if (record.value("kind", nlohmann::json()) == "summary") rename(record);
}

}  // namespace

std::vector<nlohmann::json> read_journal(const std::filesystem::path& path) {
  std::istringstream lines(read_all(path));
  std::vector<nlohmann::json> records;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    nlohmann::json record;
    try {
      record = parse_json(line, where, kRemedy);
    } catch (const UserError&) {
      if (lines.eof()) break;  // torn: it has no line break
      throw;
    }
    if (!record.is_object()) throw UserError(where, "not a JSON object", kRemedy);
    take_present_names(record, path);
    check_record(record, where);
    records.push_back(std::move(record));
  }
  return records;
}

void write_file(const std::filesystem::path& path, const std::string& contents) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(path, errno);
  const int written = write_all(descriptor, contents);
  close(descriptor);
  if (written != 0) fail(path, written);
}

}  // namespace rtfx
