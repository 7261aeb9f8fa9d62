#include "harness/profile/nsight_export.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "harness/profile/profile_report.h"

namespace rtfx {
namespace {

using nlohmann::json;

json json_of(const Named<record::ProfiledRegion>& regions) {
  record::Profile profile;
  profile.regions = regions;
  return record::write(profile).at("regions");
}
using std::filesystem::path;

constexpr int64_t kMainThread = (int64_t{1} << 48) + (int64_t{4711} << 24) + 4711;

/// A session with the tables of tests/data/nsight_systems.sql.
class Export {
 public:
  Export()
      : file_(std::filesystem::temp_directory_path() /
              fmt::format("rtfx_nsight_{}.sqlite", getpid())) {
    std::filesystem::remove(file_);
    EXPECT_EQ(sqlite3_open(file_.c_str(), &database_), SQLITE_OK);
    std::stringstream tables;
    tables << std::ifstream("tests/data/nsight_systems.sql").rdbuf();
    run(tables.str());
  }
  ~Export() {
    sqlite3_close(database_);
    std::filesystem::remove(file_);
  }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

  void run(const std::string& sql) {
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message << " in " << sql;
  }

  int string_id(const std::string& text) {
    const auto found = std::ranges::find(strings_, text);
    if (found != strings_.end()) return static_cast<int>(found - strings_.begin());
    strings_.push_back(text);
    run(fmt::format("INSERT INTO StringIds VALUES ({}, '{}')", strings_.size() - 1, text));
    return static_cast<int>(strings_.size() - 1);
  }

  void range(const std::string& name, Span time, int64_t thread = kMainThread) {
    run(
        fmt::format("INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId) "
                    "VALUES ({}, {}, 59, {}, {}, 1)",
                    time.begin, time.end, thread, string_id(name)));
  }

  void activity(const Activity& all) {
    for (const KernelRun& k : all.kernels) {
      run(fmt::format(
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
          "correlationId, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, "
          "blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, "
          "localMemoryTotal, gridId, graphNodeId) VALUES ({}, {}, 0, 1, {}, {}, {}, 0, 32, 1, 1, "
          "1, 128, 1, 1, 0, 0, 0, 0, 1, {})",
          k.time.begin, k.time.end, k.stream, k.call, string_id(all.names[k.name]),
          k.in_graph ? "77" : "NULL"));
    }
    for (const CopyRun& c : all.copies) {
      run(
          fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, "
                      "streamId, correlationId, bytes, copyKind) VALUES ({}, {}, 0, 1, {}, {}, {}, "
                      "2)",
                      c.time.begin, c.time.end, c.stream, c.call, c.bytes));
    }
    for (const CallRun& c : all.calls) {
      run(fmt::format(
          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, {}, 0, "
          "NULL)",
          c.time.begin, c.time.end, kMainThread, c.id, string_id(all.names[c.name] + "_v7000")));
    }
  }

  const path& file() const { return file_; }

 private:
  path file_;
  sqlite3* database_ = nullptr;
  std::vector<std::string> strings_;
};

constexpr const char* kCase = "model/data/decoder/b2/fp32";

/// Two laps with one batch each. In each lap, the kernel of "decode.project" ends only in
/// "decode.loop". A graph, a copy and a wait for it follow there.
struct Laps {
  Activity activity;
  std::vector<LoggedRange> ranges;
  std::vector<Span> laps;

  Laps() {
    activity.names = {"gemm<(int)4>(float*)",  "step(int)",       "copy device to host",
                      "cudaLaunchKernel",      "cudaGraphLaunch", "cudaMemcpyAsync",
                      "cudaDeviceSynchronize", "memset"};
    for (const int64_t at : {10'000, 30'000}) {
      const auto span = [&](int64_t begin, int64_t end) { return Span{at + begin, at + end}; };
      const auto call = static_cast<uint32_t>(at);
      activity.calls.push_back({span(1100, 1200), 3, 4711, CallKind::launch, call});
      activity.kernels.push_back({span(1300, 2500), 0, 7, false, call});
      activity.calls.push_back({span(2600, 2700), 4, 4711, CallKind::graph_launch, call + 1});
      activity.kernels.push_back({span(2800, 3800), 1, 7, true, call + 1});
      activity.kernels.push_back({span(4000, 5000), 1, 7, true, call + 1});
      activity.calls.push_back({span(2750, 2790), 5, 4711, CallKind::other, call + 2});
      activity.copies.push_back({span(5100, 5200), 2, 7, 640, call + 2});
      activity.calls.push_back({span(2900, 5400), 6, 4711, CallKind::synchronize, call + 3});
      // A RangeLog has these ranges too: "decode.project" ends when its kernel does.
      ranges.push_back({"decode", span(1000, 5600)});
      ranges.push_back({"decode.project", span(1050, 2500)});
      ranges.push_back({"decode.loop", span(2500, 5500)});
      ranges.push_back({"wait", span(2850, 5500)});
      laps.push_back(span(0, 6000));
    }
  }

  /// Writes the ranges as a profiler sees them.
  void write(Export& database, const std::string& name = kCase) const {
    for (const Span& lap : laps) {
      const auto span = [&](int64_t begin, int64_t end) {
        return Span{lap.begin + begin, lap.begin + end};
      };
      database.range(name, span(-10, 6010));
      database.range("round", lap);
      database.range("batch", span(900, 5700));
      database.range("decode", span(1000, 5600));
      database.range("decode.project", span(1050, 1250));
      database.range("decode.loop", span(1260, 2840));
      database.range("decode.graph", span(2590, 2710));
      database.range("wait", span(2850, 5500));
    }
    database.activity(activity);
  }
};

std::string message_of(const path& file) {
  try {
    read_nsight_session(file);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(NsightExport, GivesTheFiguresOfTheSameActivity) {
  const Laps laps;
  Export database;
  laps.write(database);
  database.run(
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2023.4.4.54');"
      "INSERT INTO TARGET_INFO_GPU (vmId, id, name) VALUES (0, 1, 'another'), (0, 0, 'Some GPU');"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1, '2026-01-02T03:04:05', 'local')");
  const NsightSession session = read_nsight_session(database.file());
  EXPECT_EQ(session.product, "Nsight Systems 2023.4.4.54");
  EXPECT_EQ(session.gpu, "Some GPU");
  EXPECT_EQ(session.started, "2026-01-02T03:04:05");
  EXPECT_FALSE(session.whole_graphs);
  ASSERT_EQ(session.cases.size(), 1U);
  const NsightCase& one = session.cases.front();
  EXPECT_EQ(one.name, kCase);
  ASSERT_EQ(one.laps.size(), 2U);

  const FigureOptions options{true, false, 5};
  std::vector<std::string> remarks, wanted_remarks;
  const json figures =
      json_of(profiled_regions(one.ranges, one.laps, one.activity, options, remarks));
  Activity shown = laps.activity;  // names as the collector shortens them
  shown.names[0] = "gemm";
  shown.names[1] = "step";
  const json wanted =
      json_of(profiled_regions(laps.ranges, laps.laps, shown, options, wanted_remarks));
  EXPECT_EQ(figures, wanted) << figures.dump(1) << wanted.dump(1);
  EXPECT_EQ(figures["decode.project"]["kernels"], 2);
  EXPECT_EQ(figures["decode.loop"]["graph_kernels"], 4);
  EXPECT_EQ(figures["decode.loop"]["synchronizations"], 0);  // the harness's wait does not count
  EXPECT_EQ(figures["decode"]["copied_bytes"], 1280);
  EXPECT_TRUE(remarks.empty());
}

TEST(NsightExport, WarmUpAndOtherThreadsAreNoLaps) {
  Export database;
  database.range("warm_up", {100, 5000});
  database.range(kCase, {200, 4900});
  database.range("round", {300, 4800});
  database.range("decode", {400, 4700});
  Laps().write(database);
  database.range("decode.row", {12'000, 12'100}, kMainThread + 1);
  database.range("decode", {12'000, 12'100}, kMainThread + 1);
  const NsightSession session = read_nsight_session(database.file());
  ASSERT_EQ(session.cases.size(), 1U);
  EXPECT_EQ(session.cases.front().laps.size(), 2U);
  EXPECT_EQ(spans_named(session.cases.front().ranges, "decode").size(), 2U);
  EXPECT_EQ(session.gpu, "unknown GPU");  // the GPU on which the kernels ran
}

TEST(NsightExport, AGpuIsWhereSomethingRan) {
  const auto gpu_of = [](const Activity& activity, const std::string& sql = "") {
    Export database;
    Laps alone;
    alone.activity = {};
    alone.write(database);
    database.activity(activity);
    database.run("INSERT INTO TARGET_INFO_GPU (vmId, id, name) VALUES (0, 3, 'Some GPU');" + sql);
    return read_nsight_session(database.file()).gpu;
  };
  const Laps laps;
  EXPECT_EQ(gpu_of({}), "");
  EXPECT_EQ(gpu_of(laps.activity), "unknown GPU");
  // CUDA's device 0 is the machine's GPU 3.
  const std::string table = "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER);";
  const std::string row = "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (2, 1), (3, 0);";
  EXPECT_EQ(gpu_of(laps.activity, table + row), "Some GPU");
  EXPECT_EQ(gpu_of(laps.activity, table), "unknown GPU");
  Activity copies;
  copies.names = laps.activity.names;
  copies.copies = laps.activity.copies;
  EXPECT_EQ(gpu_of(copies, table + row), "Some GPU");
}

TEST(NsightExport, CasesOfOneSessionAreKeptApart) {
  Export database;
  const Laps laps;
  laps.write(database);
  database.range("model/data/other/b2/fp32", {60'000, 70'000});
  database.range("round", {61'000, 69'000});
  database.range("decode", {62'000, 68'000});
  Activity later;
  later.names = laps.activity.names;
  later.kernels = {{{63'000, 64'000}, 1, 7, false, 5}};
  database.activity(later);
  const NsightSession session = read_nsight_session(database.file());
  ASSERT_EQ(session.cases.size(), 2U);
  EXPECT_EQ(session.cases[0].activity.kernels.size(), laps.activity.kernels.size());
  EXPECT_EQ(session.cases[1].activity.kernels.size(), 1U);
}

TEST(NsightExport, GraphsOnRecordAsAWhole) {
  Export database;
  Laps laps;
  std::erase_if(laps.activity.kernels, [](const KernelRun& kernel) { return kernel.in_graph; });
  laps.write(database);
  for (const Span& lap : laps.laps) {
    database.run(
        fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({}, {}, 0, 1, "
                    "NULL, 7, {}, NULL, 1, 1)",
                    lap.begin + 2800, lap.begin + 5000, lap.begin + 1));
  }
  const NsightSession session = read_nsight_session(database.file());
  EXPECT_TRUE(session.whole_graphs);
  const NsightCase& one = session.cases.front();
  std::vector<std::string> remarks;
  const json figures =
      json_of(profiled_regions(one.ranges, one.laps, one.activity, {true, true, 5}, remarks));
  EXPECT_EQ(figures["decode.loop"]["kernels"], 2);
  EXPECT_EQ(figures["decode.loop"]["top_kernels"][0]["name"], kWholeGraph);
  EXPECT_TRUE(figures["decode.loop"]["gpu.busy"].is_null());
  EXPECT_EQ(remarks.size(), 2U);  // of "decode" and "decode.loop"
}

TEST(NsightExport, TablesAndColumnsThatAreNotThere) {
  Export database;
  Laps().write(database);
  database.run(
      "DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET; DROP TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE;"
      "DROP TABLE TARGET_INFO_GPU; DROP TABLE META_DATA_EXPORT;"
      "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN graphNodeId");
  const NsightSession session = read_nsight_session(database.file());
  EXPECT_EQ(session.cases.front().activity.kernels.size(), 6U);
}

TEST(NsightExport, OneErrorForWhatIsNoSession) {
  const auto holds = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos && text.find("nsys export --type sqlite") != text.npos;
  };
  EXPECT_TRUE(holds(message_of("/nowhere/session.sqlite"), "cannot be read: unable to open"));
  EXPECT_TRUE(holds(message_of("README.md"), "cannot be read: file is not a database"));
  const path empty = std::filesystem::temp_directory_path() / fmt::format("rtfx_{}", getpid());
  std::ofstream(empty).close();
  EXPECT_TRUE(holds(message_of(empty), "holds no NVTX ranges"));
  std::filesystem::remove(empty);

  Export database;
  EXPECT_TRUE(holds(message_of(database.file()), "holds no round of a case"));
  EXPECT_THROW(read_nsight_session(database.file()), NoRounds);
  database.range("decode", {1, 2});
  EXPECT_TRUE(holds(message_of(database.file()), "holds no round of a case"));
  Laps().write(database);
  EXPECT_EQ(message_of(database.file()), "");
  database.run("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME COLUMN nameId TO name");
  EXPECT_TRUE(holds(message_of(database.file()), "no such column: nameId"));
}

TEST(NsightExport, ADamagedFileIsRefused) {
  Export database;
  Laps().write(database);
  const path damaged =
      std::filesystem::temp_directory_path() / fmt::format("rtfx_{}.sqlite", getpid());
  std::filesystem::copy_file(database.file(), damaged);
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) / 2);
  EXPECT_NE(message_of(damaged).find("cannot be read"), std::string::npos);
  std::filesystem::remove(damaged);
}

}  // namespace
}  // namespace rtfx
