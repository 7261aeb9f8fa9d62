#include "harness/results/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace rtfx {

namespace {

constexpr int64_t kNewestSchema = 1;

void require_known_schema(const record::Any& record, const std::string& where) {
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.schema; }) {
          if (one.schema && *one.schema > kNewestSchema) {
            throw UserError(where, fmt::format("schema {}: a newer rtfx wrote it", *one.schema),
                            fmt::format("this one reads {}: use a newer one", kNewestSchema));
          }
        }
      },
      record);
}

}  // namespace

void set_aside(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  for (int n = 1;; ++n) {
    const std::filesystem::path other = fmt::format("{}.{}", path.string(), n);
    if (!std::filesystem::exists(other)) return std::filesystem::rename(path, other);
  }
}

Journal::Journal(const std::filesystem::path& folder, Mode mode, const std::string& name,
                 bool resumable)
    : path_(folder / name), resumable_(resumable) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw UserError(folder.string(), "cannot be made: " + error.message(),
                    "choose another --output");
  require_regular_or_new(path_);
  // A new plain journal would hide a packed one from every reader.
  if (const std::filesystem::path packed = plain_or_gzip(path_); packed != path_) {
    throw UserError(packed.string(), "holds an earlier run, packed",
                    "unpack it with gunzip, or choose another --output");
  }
  open_file(mode != Mode::child);
  struct stat there {};
  if (fstat(file_.number, &there) != 0) fail(errno);
  if (there.st_size > 0 && mode == Mode::fresh) {
    throw UserError(path_.string(), "holds an earlier run",
                    "--resume continues it, --force starts anew and keeps it as journal.jsonl.N");
  }
  if (there.st_size > 0 && mode == Mode::force) {
    set_aside(path_);
    open_file(/*alone=*/true);
  }
  end_last_line();
}

void Journal::end_last_line() {
  const std::string bytes = read_bytes(path_);
  if (bytes.starts_with("\x1f\x8b")) {  // readers unpack gzip under any name
    throw UserError(path_.string(), "holds an earlier run, packed",
                    "rename it to journal.jsonl.gz and unpack it with gunzip, or choose another "
                    "--output");
  }
  const size_t whole = bytes.rfind('\n') + 1;  // 0 where there is no line break, as npos + 1 is 0
  if (whole == bytes.size()) return;
  // Readers count a whole record, also where an editor has left out its line break.
  if (nlohmann::json::accept(std::string_view(bytes).substr(whole))) {
    if (const int error = write_all(file_.number, "\n"); error != 0) fail(error);
  } else if (ftruncate(file_.number, static_cast<off_t>(whole)) != 0) {
    fail(errno);
  }
}

void Journal::fail(int error) const {
  cannot_write(path_, error,
               resumable_
                   ? "free some space, then continue with --resume; earlier records are intact"
                   : "free some space and start again; earlier records are intact");
}

void Journal::open_file(bool alone) {
  file_.close_now();
  file_.number = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_.number < 0) fail(errno);
  // The lock ends with the process, however that ends. Some file systems have none.
  if (alone && flock(file_.number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UserError(path_.string(), "is being written by another process of rtfx",
                    "wait for it or stop it, or choose another --output");
  }
}

void Journal::append(const nlohmann::json& record) { append_line(to_line(record)); }

void Journal::append_line(const std::string& line) {
  struct stat before {};
  if (fstat(file_.number, &before) != 0) fail(errno);
  const int error = write_all(file_.number, line);
  if (error == 0) return;
  // Half a record is of no use. Cutting it off needs no space on the disk; should even that fail,
  // readers ignore a torn last line.
  [[maybe_unused]] const int cut = ftruncate(file_.number, before.st_size);
  fail(error);
}

void Journal::sync() {
  if (fsync(file_.number) != 0 && errno != EINVAL) fail(errno);  // EINVAL: not a disk file
}

record::Records read_journal(const std::filesystem::path& path) {
  record::Records records;
  read_journal(path, [&](record::Any&& record) { records.push_back(std::move(record)); });
  return records;
}

void read_journal(const std::filesystem::path& path,
                  const std::function<void(record::Any&& record)>& add) {
  TextLines lines(plain_or_gzip(path), TextCheck::none);
  SharedTrees trees;
  for (std::string_view line; lines.next(line);) {
    const std::string where = fmt::format("{}:{}", path.string(), lines.number());
    record::Any record;
    try {
      record = record::read_line(line, where, trees);
    } catch (const UserError&) {
      // A line that a crash has torn has no line break, and is no JSON.
      if (!lines.is_terminated() && !nlohmann::json::accept(line)) break;
      throw;
    }
    require_known_schema(record, where);
    add(std::move(record));
  }
}

std::string journal_name(const std::filesystem::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).stem().string();
}

}  // namespace rtfx
