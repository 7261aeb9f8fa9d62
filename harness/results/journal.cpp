#include "harness/results/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "harness/results/record_table.h"
#include "harness/results/records.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx {

namespace {

constexpr const char* kRemedy = "the journal was edited or damaged";

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  cannot_write(path, error,
               "free some space, then continue with --resume; earlier records are intact");
}

/// Moves an existing journal out of the way.
void set_aside(const std::filesystem::path& path) {
  for (int n = 1;; ++n) {
    const std::filesystem::path other = fmt::format("{}.{}", path.string(), n);
    if (!std::filesystem::exists(other)) return std::filesystem::rename(path, other);
  }
}

}  // namespace

Journal::Journal(const std::filesystem::path& folder, Mode mode, const std::string& name)
    : path_(folder / name) {
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
  if (fstat(file_.number, &there) != 0) fail(path_, errno);
  if (there.st_size > 0 && mode == Mode::fresh) {
    throw UserError(path_.string(), "holds an earlier run",
                    "--resume continues it, --force starts anew and keeps it as journal.jsonl.N");
  }
  if (there.st_size > 0 && mode == Mode::force) {
    set_aside(path_);
    open_file(/*alone=*/true);
  }
  const std::string text = read_text(path_);
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is no line break, as npos + 1 is 0
  if (whole != text.size() && ftruncate(file_.number, static_cast<off_t>(whole)) != 0)
    fail(path_, errno);
}

void Journal::open_file(bool alone) {
  if (file_.number >= 0) close(file_.number);
  file_.number = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_.number < 0) fail(path_, errno);
  // The lock ends with the process, however that ends. Some file systems have none.
  if (alone && flock(file_.number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UserError(path_.string(), "is being written by another process of rtfx",
                    "wait for it or stop it, or choose another --output");
  }
}

Journal::Descriptor::~Descriptor() {
  if (number >= 0) close(number);
}

void Journal::append(const nlohmann::json& record) {
  struct stat before {};
  if (fstat(file_.number, &before) != 0) fail(path_, errno);
  const int error = write_all(file_.number, to_line(record));
  if (error == 0) return;
  // Half a record is of no use. Cutting it off needs no space on the disk; should even that fail,
  // readers ignore a torn last line.
  [[maybe_unused]] const int cut = ftruncate(file_.number, before.st_size);
  fail(path_, error);
}

void Journal::sync() {
  if (fsync(file_.number) != 0 && errno != EINVAL) fail(path_, errno);  // EINVAL: not a disk file
}

std::vector<nlohmann::json> read_journal(const std::filesystem::path& path) {
  std::istringstream lines(read_text(path));
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
    check_record(record, where);
    records.push_back(std::move(record));
  }
  return records;
}

std::string journal_name(const std::filesystem::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).stem().string();
}

namespace {

using nlohmann::json;

/// Comparisons take the name apart: model/dataset/decoder/batch/dtype.
template <class Record>
void check_case(const Record& record, const std::string& where) {
  parse_dtypes(record.dtype, where);
  const std::string name =
      fmt::format("{}/{}/{}/", record.model.id, record.dataset.id, record.decoder.id);
  if (!record.case_name.starts_with(name)) {
    refuse_record(where, fmt::format("'case' is '{}'", record.case_name),
                  fmt::format("it must begin '{}'", name));
  }
}

void check_grade(const std::string& name, const char* more, const std::string& where) {
  std::vector<std::string> allowed(grade_names().begin(), grade_names().end());
  if (more != nullptr) allowed.emplace_back(more);
  if (std::ranges::find(allowed, name) == allowed.end())
    throw unknown_name(where, "grade", name, allowed);
}

/// The rules that join several fields.
struct JointRules {
  std::string where;

  void operator()(const record::Provenance& record) const {
    if (!record.config) return;
    const json required =
        record.config->value.value("/verify/required"_json_pointer, json::object());
    for (const json& grade : required) check_grade(grade.get<std::string>(), nullptr, where);
  }
  void operator()(const record::Run& record) const {
    if (record.exactness) check_grade(record.exactness->grade, "baseline", where);
    check_case(record, where);
  }
  void operator()(const record::StreamRun& record) const { check_case(record, where); }
  void operator()(const record::Failure& record) const { check_case(record, where); }
  void operator()(const auto&) const {}
};

}  // namespace

void check_record(const json& object, const std::string& where) {
  check_object(object, record::Unknown::table().info(), where);
  if (const record::Kind* kind = record::find_kind(object.value("kind", "")))
    check_object(object, kind->info(), where);
  std::visit(JointRules{where}, record::read(object));
}

void check_hypothesis(const json& line, const std::string& where) {
  static const ObjectInfo info{
      .name = "hypothesis",
      .about = "",
      .fields = {{.name = "id", .types = kText},
                 {.name = "text", .types = kText},
                 {.name = "reference", .types = kText | kNull},
                 {.name = "seconds", .types = kNotNegative, .required = false}}};
  check_object(line, info, where);
}

}  // namespace rtfx
