#include "harness/profile/nsight_export.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace rtfx {

/// The current row of a query's result. Columns count from 0. NULL reads as 0 or "".
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const;
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  sqlite3_stmt* statement_;
};

/// A file that is opened for reading. Errors are UserErrors that name it.
class SqliteFile {
 public:
  /// `remedy` is the advice for a file that is no such database.
  SqliteFile(const std::filesystem::path& file, std::string remedy);

  bool has_table(const std::string& table) const;
  bool has_column(const std::string& table, const std::string& column) const;
  void query(const std::string& sql, const std::function<void(const SqliteRow&)>& on_row) const;

 private:
  [[noreturn]] void fail() const;

  std::string name_, remedy_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_;
};

namespace {

sqlite3* opened(const std::string& name) {
  sqlite3* database = nullptr;
  sqlite3_open_v2(name.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  return database;  // knows of an error, too
}

}  // namespace

std::string SqliteRow::text(int column) const {
  const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return value == nullptr ? "" : value;
}

SqliteFile::SqliteFile(const std::filesystem::path& file, std::string remedy)
    : name_(file.string()), remedy_(std::move(remedy)), database_(opened(name_), sqlite3_close) {
  if (sqlite3_errcode(database_.get()) != SQLITE_OK) fail();
}

void SqliteFile::fail() const {
  throw UserError(name_, fmt::format("cannot be read: {}", sqlite3_errmsg(database_.get())),
                  remedy_);
}

bool SqliteFile::has_table(const std::string& table) const {
  bool found = false;
  query(fmt::format("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{}'", table),
        [&](const SqliteRow&) { found = true; });
  return found;
}

bool SqliteFile::has_column(const std::string& table, const std::string& column) const {
  bool found = false;
  query(fmt::format("SELECT name FROM pragma_table_info('{}')", table),
        [&](const SqliteRow& row) { found = found || row.text(0) == column; });
  return found;
}

void SqliteFile::query(const std::string& sql,
                       const std::function<void(const SqliteRow&)>& on_row) const {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) fail();
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
  int result = SQLITE_ROW;
  while ((result = sqlite3_step(prepared)) == SQLITE_ROW) on_row(SqliteRow(prepared));
  if (result != SQLITE_DONE) fail();
}

namespace {

constexpr const char* kNsightRemedy =
    "give what `nsys export --type sqlite` makes of a report of `rtfx profile --nsys`";

// A value of ENUM_NSYS_EVENT_TYPE.
constexpr int kPushPopRange = 59;

// In its lowest bits, a globalTid has 24 bits of the thread's id, and then 24 bits of the process's
// id.
constexpr int64_t kThreadMask = 0xFFFFFF;

/// Returns the name of a copyKind, which CUPTI numbers.
const char* nsight_copy_name(int64_t kind) {
  switch (kind) {
    case 1:
      return "copy host to device";
    case 2:
      return "copy device to host";
    case 8:
      return "copy device to device";
    default:
      return "copy";
  }
}

/// Finds the cases among all ranges, and the ranges within each case. The ranges come thread by
/// thread, an outer range before those within it.
class CaseFinder {
 public:
  explicit CaseFinder(std::vector<NsightCase>& cases) : cases_(cases) {}

  void take(const std::string& name, Span time, int64_t thread) {
    if (thread != thread_) open_.clear();
    thread_ = thread;
    while (!open_.empty() && open_.back().end <= time.begin) open_.pop_back();
    Open range{name, time.end, std::nullopt, !open_.empty() && open_.back().warm_up};
    if (!open_.empty()) range.of_case = open_.back().of_case;
    const auto word = range_named(name);
    if (word == RangeName::warm_up) range.warm_up = true;
    const bool in_case = !open_.empty() && !range_named(open_.back().name);
    if (word == RangeName::round && in_case && !range.warm_up) {
      range.of_case = case_named(open_.back().name);
      cases_[*range.of_case].laps.push_back(time);
    } else if (word && range.of_case && is_logged(*word)) {
      cases_[*range.of_case].ranges.push_back({name, time});
    }
    open_.push_back(std::move(range));
  }

 private:
  struct Open {
    std::string name;
    int64_t end;
    std::optional<size_t> of_case;  // the case whose lap contains the range
    bool warm_up;
  };

  size_t case_named(const std::string& name) {
    for (size_t i = 0; i < cases_.size(); ++i)
      if (cases_[i].name == name) return i;
    cases_.push_back({name, {}, {}, {}});
    return cases_.size() - 1;
  }

  std::vector<NsightCase>& cases_;
  std::vector<Open> open_;
  int64_t thread_ = -1;
};

class SessionReader {
 public:
  explicit SessionReader(const std::filesystem::path& file)
      : name_(file.string()), database_(file, kNsightRemedy) {
    if (!database_.has_table("NVTX_EVENTS") || !database_.has_table("StringIds"))
      throw UserError(name_, "holds no NVTX ranges", kNsightRemedy);
  }

  NsightSession read() {
    read_ranges();
    read_facts();
    database_.query("SELECT id, value FROM StringIds",
                    [&](const SqliteRow& row) { strings_.emplace(row.integer(0), row.text(1)); });
    read_kernels();
    read_whole_graphs();
    read_copies("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind");
    read_copies("CUPTI_ACTIVITY_KIND_MEMSET", "NULL");
    read_calls();
    for (NsightCase& one : session_.cases) {
      take_activity(one);
      end_phases(one);
    }
    return std::move(session_);
  }

 private:
  void read_ranges() {
    CaseFinder finder(session_.cases);
    database_.query(fmt::format("SELECT e.start, e.end, COALESCE(s.value, e.text, ''), e.globalTid "
                                "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
                                "WHERE e.eventType = {} AND e.end IS NOT NULL "
                                "ORDER BY e.globalTid, e.start, e.end DESC",
                                kPushPopRange),
                    [&](const SqliteRow& row) {
                      finder.take(row.text(2), {row.integer(0), row.integer(1)}, row.integer(3));
                    });
    if (session_.cases.empty())
      throw NoRounds(name_, "holds no round of a case as `rtfx profile` records it", kNsightRemedy);
  }

  void read_facts() {
    const auto first_text = [&](const std::string& table, const std::string& sql) {
      std::string text;
      if (database_.has_table(table)) {
        database_.query(sql,
                        [&](const SqliteRow& row) { text += text.empty() ? row.text(0) : ""; });
      }
      return text;
    };
    session_.product = "Nsight Systems";
    for (const std::string table :
         {"META_DATA_EXPORT", "EXPORT_META_DATA"}) {  // versions up to 2022.4 have the latter
      const std::string version = first_text(
          table, fmt::format("SELECT value FROM {} WHERE name = 'EXPORT_PRODUCT_VERSION'", table));
      if (!version.empty()) session_.product += " " + version;
    }
    session_.started = first_text("TARGET_INFO_SESSION_START_TIME",
                                  "SELECT utcTime FROM TARGET_INFO_SESSION_START_TIME");
    const std::optional<int64_t> device = device_used();
    if (!device) return;
    // CUDA numbers the devices that the process may use. Nsight Systems numbers all devices of the
    // machine.
    std::string id = std::to_string(*device);
    if (database_.has_table("TARGET_INFO_CUDA_DEVICE")) {
      id = fmt::format(
          "COALESCE((SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE cudaId = {0}), {0})", id);
    }
    session_.gpu =
        first_text("TARGET_INFO_GPU", "SELECT name FROM TARGET_INFO_GPU WHERE id = " + id);
    if (session_.gpu.empty()) session_.gpu = "unknown GPU";
  }

  /// Returns the CUDA device of the first recorded kernel, graph or copy; none if there is none.
  std::optional<int64_t> device_used() const {
    std::optional<int64_t> device;
    for (const char* kind : {"KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET"}) {
      const std::string table = fmt::format("CUPTI_ACTIVITY_KIND_{}", kind);
      if (device || !database_.has_table(table)) continue;
      database_.query(fmt::format("SELECT deviceId FROM {} LIMIT 1", table),
                      [&](const SqliteRow& row) { device = row.integer(0); });
    }
    return device;
  }

  /// Returns "t.column", or NULL if this version of the schema has no such column.
  std::string column(const std::string& table, const std::string& name) const {
    return database_.has_column(table, name) ? name : "NULL";
  }

  uint32_t name_index(const std::string& shown) {
    const auto [found, fresh] = names_.try_emplace(shown, static_cast<uint32_t>(all_.names.size()));
    if (fresh) all_.names.push_back(shown);
    return found->second;
  }

  /// Returns the name of a kernel or call by the id of its string. Applies `shorten` to a new name.
  template <typename Shorten>
  uint32_t name_of(int64_t id, Shorten shorten, std::unordered_map<int64_t, uint32_t>& known) {
    if (const auto found = known.find(id); found != known.end()) return found->second;
    const auto text = strings_.find(id);
    const uint32_t index = name_index(text == strings_.end() ? "unknown" : shorten(text->second));
    known.emplace(id, index);
    return index;
  }

  void read_kernels() {
    const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
    if (!database_.has_table(table)) return;
    std::unordered_map<int64_t, uint32_t> known;
    database_.query(
        fmt::format("SELECT start, end, demangledName, streamId, COALESCE({}, 0), correlationId "
                    "FROM {} ORDER BY start",
                    column(table, "graphNodeId"), table),
        [&](const SqliteRow& row) {
          all_.kernels.push_back({{row.integer(0), row.integer(1)},
                                  name_of(row.integer(2), short_kernel_name, known),
                                  static_cast<uint32_t>(row.integer(3)),
                                  row.integer(4) != 0,
                                  static_cast<uint32_t>(row.integer(5))});
        });
  }

  void read_whole_graphs() {
    const std::string table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    if (!database_.has_table(table)) return;
    const uint32_t name = name_index(kWholeGraph);
    database_.query(
        fmt::format("SELECT start, end, streamId, correlationId FROM {} ORDER BY start", table),
        [&](const SqliteRow& row) {
          session_.whole_graphs = true;
          all_.kernels.push_back({{row.integer(0), row.integer(1)},
                                  name,
                                  static_cast<uint32_t>(row.integer(2)),
                                  true,
                                  static_cast<uint32_t>(row.integer(3))});
        });
  }

  void read_copies(const std::string& table, const std::string& kind) {
    if (!database_.has_table(table)) return;
    database_.query(
        fmt::format("SELECT start, end, {}, streamId, bytes, correlationId FROM {} ORDER BY start",
                    kind, table),
        [&](const SqliteRow& row) {
          const char* name = row.is_null(2) ? "memset" : nsight_copy_name(row.integer(2));
          all_.copies.push_back({{row.integer(0), row.integer(1)},
                                 name_index(name),
                                 static_cast<uint32_t>(row.integer(3)),
                                 static_cast<uint64_t>(row.integer(4)),
                                 static_cast<uint32_t>(row.integer(5))});
        });
  }

  void read_calls() {
    const std::string table = "CUPTI_ACTIVITY_KIND_RUNTIME";  // includes calls of the driver
    if (!database_.has_table(table)) return;
    std::unordered_map<int64_t, uint32_t> known;
    database_.query(
        fmt::format("SELECT start, end, nameId, globalTid, correlationId FROM {} ORDER BY start",
                    table),
        [&](const SqliteRow& row) {
          const uint32_t name = name_of(row.integer(2), short_call_name, known);
          all_.calls.push_back({{row.integer(0), row.integer(1)},
                                name,
                                static_cast<uint32_t>(row.integer(3) & kThreadMask),
                                classify_call(all_.names[name]),
                                static_cast<uint32_t>(row.integer(4))});
        });
  }

  void take_activity(NsightCase& one) const {
    const int64_t begin = one.laps.front().begin, end = one.laps.back().end;
    const auto take = [&](const auto& from, auto& to) {
      for (const auto& run : from)
        if (run.time.begin >= begin && run.time.begin < end) to.push_back(run);
    };
    one.activity.names = all_.names;
    take(all_.kernels, one.activity.kernels);
    take(all_.copies, one.activity.copies);
    take(all_.calls, one.activity.calls);
  }

  /// Moves the end of each phase to the end of its work on the device, where the next phase begins.
  /// The last phase of a region ends with the region's wait. Other phases end with the work that
  /// their own calls launched.
  static void end_phases(NsightCase& one) {
    std::map<uint32_t, int64_t> work_ends;  // indexed by call
    const auto add = [&](const auto& runs) {
      for (const auto& run : runs) {
        int64_t& end = work_ends[run.call];
        end = std::max(end, run.time.end);
      }
    };
    add(one.activity.kernels);
    add(one.activity.copies);
    work_ends.erase(0);
    LoggedRange* phase = nullptr;
    for (LoggedRange& range : one.ranges) {
      const auto word = range_named(range.name);
      if (phase != nullptr) {
        const int64_t known = work_end(*phase, one.activity.calls, work_ends);
        if (word == RangeName::wait) {
          phase->time.end = range.time.end;
        } else {
          phase->time.end = std::max(phase->time.end, known);
          range.time.begin = std::max(range.time.begin, phase->time.end);
          range.time.end = std::max(range.time.end, range.time.begin);
        }
      }
      phase = info_of(*word).kind == RangeKind::phase ? &range : nullptr;
    }
  }

  static int64_t work_end(const LoggedRange& phase, const std::vector<CallRun>& calls,
                          const std::map<uint32_t, int64_t>& work_ends) {
    int64_t end = 0;
    const auto first = std::ranges::lower_bound(
        calls, phase.time.begin, {}, [](const CallRun& call) { return call.time.begin; });
    for (auto call = first; call != calls.end() && call->time.begin < phase.time.end; ++call) {
      const auto found = work_ends.find(call->id);
      if (found != work_ends.end()) end = std::max(end, found->second);
    }
    return end;
  }

  std::string name_;
  SqliteFile database_;
  NsightSession session_;
  Activity all_;
  std::unordered_map<int64_t, std::string> strings_;
  std::unordered_map<std::string, uint32_t> names_;
};

}  // namespace

NsightSession read_nsight_session(const std::filesystem::path& file) {
  return SessionReader(file).read();
}

namespace {

// Tracks are shown in the order of their numbers.
constexpr int64_t kRegionTrack = 1, kCallTrack = 10, kKernelTrack = 1000, kCopyTrack = 2000;

double microseconds(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

std::string quoted(const std::string& text) { return to_text(nlohmann::json(text)); }

/// Numbers the streams or threads of a case from 0, by their ids.
class Numbers {
 public:
  template <typename Run, typename Id>
  Numbers(const std::vector<Run>& runs, Id id) {
    for (const Run& run : runs) numbers_[id(run)] = 0;
    int64_t next = 0;
    for (auto& [key, number] : numbers_) number = next++;
  }
  int64_t of(uint32_t id) const { return numbers_.at(id); }
  const std::map<uint32_t, int64_t>& all() const { return numbers_; }

 private:
  std::map<uint32_t, int64_t> numbers_;
};

}  // namespace

TraceFile::TraceFile(int64_t limit, size_t cases)
    : budget_(std::max<int64_t>(1, limit / static_cast<int64_t>(std::max<size_t>(1, cases)))) {}

void TraceFile::add(const std::string& line) {
  text_ += text_.empty() ? "" : ",\n";
  text_ += line;
}

void TraceFile::add_metadata(const std::string& what, int64_t track, const std::string& value) {
  add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process_,
                  track, what, quoted(value)));
}

void TraceFile::add_case(const std::string& name, const std::vector<LoggedRange>& ranges,
                         const Activity& activity, int64_t until) {
  ++process_;
  if (process_ == 1 && !ranges.empty()) origin_ = ranges.front().time.begin;
  const Numbers threads(activity.calls, [](const CallRun& run) { return run.thread; });
  const Numbers kernels(activity.kernels, [](const KernelRun& run) { return run.stream; });
  const Numbers copies(activity.copies, [](const CopyRun& run) { return run.stream; });
  add_metadata("process_name", 0, name);
  add_metadata("thread_name", kRegionTrack, "regions");
  for (const auto& [id, number] : threads.all())
    add_metadata("thread_name", kCallTrack + number, fmt::format("CUDA calls, thread {}", id));
  for (const auto& [id, number] : kernels.all())
    add_metadata("thread_name", kKernelTrack + number, fmt::format("kernels, stream {}", id));
  for (const auto& [id, number] : copies.all())
    add_metadata("thread_name", kCopyTrack + number, fmt::format("copies, stream {}", id));

  std::vector<Event> events;
  events.reserve(activity.kernels.size() + activity.copies.size() + activity.calls.size());
  for (const KernelRun& run : activity.kernels)
    events.push_back({run.time, kKernelTrack + kernels.of(run.stream), &activity.names[run.name]});
  for (const CopyRun& run : activity.copies)
    events.push_back(
        {run.time, kCopyTrack + copies.of(run.stream), &activity.names[run.name], run.bytes});
  for (const CallRun& run : activity.calls)
    events.push_back({run.time, kCallTrack + threads.of(run.thread), &activity.names[run.name]});
  const auto earlier = [](const Event& a, const Event& b) { return a.time.begin < b.time.begin; };
  std::stable_sort(events.begin(), events.end(), earlier);

  std::vector<Event> all;
  all.reserve(ranges.size() + events.size());
  for (const LoggedRange& range : ranges) all.push_back({range.time, kRegionTrack, &range.name});
  all.insert(all.end(), events.begin(), events.end());
  std::erase_if(all, [&](const Event& event) { return event.time.begin >= until; });
  const auto kept = std::min<size_t>(all.size(), static_cast<size_t>(budget_));
  left_out_.push_back(static_cast<int64_t>(all.size() - kept));
  written_ += static_cast<int64_t>(kept);
  for (size_t i = 0; i < kept; ++i) {
    const Event& e = all[i];
    add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}{}}})",
                    process_, e.track, microseconds(e.time.begin - origin_),
                    microseconds(e.time.length()), quoted(*e.name),
                    e.bytes == 0 ? "" : fmt::format(R"(,"args":{{"bytes":{}}})", e.bytes)));
  }
}

int64_t TraceFile::left_out() const {
  return std::accumulate(left_out_.begin(), left_out_.end(), int64_t{0});
}

std::string TraceFile::summary() const {
  const std::string late =
      left_out() == 0 ? "" : fmt::format(", {} late ones left out: --trace-limit", left_out());
  return fmt::format("{} events{}; open it in ui.perfetto.dev", written_, late);
}

void TraceFile::write(const std::filesystem::path& path) const {
  const nlohmann::json left_out_of = left_out_;  // indexed by the number of the process, from 1
  write_file(path,
             fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"left_out_events\":{},"
                         "\"left_out_by_process\":{}}},\n\"traceEvents\":[\n{}\n]}}\n",
                         left_out(), left_out_of.dump(), text_));
}

}  // namespace rtfx
