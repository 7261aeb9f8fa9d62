#include "harness/profile/roofline.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <driver_types.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/nvtx.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/terminal.h"
#include "harness/profile/child_process.h"
#include "harness/profile/operator_cost.h"
#include "harness/profile/profile.h"
#include "harness/profile/profile_figures.h"
#include "harness/run/make_records.h"
#include "harness/run/provenance.h"
#include "harness/run/session.h"

namespace rtfx {

namespace {

struct Units {
  int major, minor;
  double vector, matrix;  // FLOP of a multiprocessor in a cycle
};

// Numbers of the tuning guides and white papers of each architecture. A multiprocessor has 64 or
// 128 fp32 lanes of 2 FLOP each. The matrix units of an A100 have 312 TFLOP/s, which is 108 x 2,048
// in a cycle of 1.41 GHz. Those of an H100 SXM have 989 TFLOP/s, which is 132 x 4,096 at 1.83 GHz.
// GeForce cards sum in fp32 at half of the rate given here.
constexpr Units kUnits[] = {{8, 0, 128, 2048}, {8, 6, 256, 1024},  {8, 9, 256, 1024},
                            {9, 0, 256, 4096}, {10, 0, 256, 8192}, {12, 0, 256, 1024}};

/// LibTorch has loaded the CUDA runtime; rtfx itself does not link it.
double attribute(cudaDeviceAttr what, int device) {
  using Function = int (*)(int*, cudaDeviceAttr, int);
  static const auto function =
      reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  int value = 0;
  return function != nullptr && function(&value, what, device) == 0 ? value : 0;
}

}  // namespace

std::optional<double> DeviceLimits::least_seconds(double moved, double flop,
                                                  bool on_matrix_units) const {
  if (!known()) return std::nullopt;
  const double rate = on_matrix_units && matrix > 0 ? matrix : vector;
  return std::max(moved / bytes, flop / rate);
}

Nullable<record::DeviceLimits> DeviceLimits::field() const {
  if (!known()) return std::nullopt;
  record::DeviceLimits limits;
  limits.bytes_per_second = bytes;
  limits.vector_flop_per_second = vector;
  limits.matrix_flop_per_second = matrix > 0 ? Nullable<Number>(matrix) : std::nullopt;
  return limits;
}

DeviceLimits device_limits(at::Device device) {
  if (!device.is_cuda()) return {};
  const int index = std::max(0, static_cast<int>(device.index()));
  return limits_of(attribute(cudaDevAttrMemoryClockRate, index),
                   attribute(cudaDevAttrGlobalMemoryBusWidth, index),
                   attribute(cudaDevAttrMultiProcessorCount, index),
                   attribute(cudaDevAttrClockRate, index),
                   static_cast<int>(attribute(cudaDevAttrComputeCapabilityMajor, index)),
                   static_cast<int>(attribute(cudaDevAttrComputeCapabilityMinor, index)));
}

DeviceLimits limits_of(double memory_khz, double bus_bits, double processors, double clock_khz,
                       int major, int minor) {
  DeviceLimits limits;
  limits.bytes = 2 * memory_khz * 1e3 * bus_bits / 8;  // two transfers in a cycle
  const auto units = std::ranges::find_if(
      kUnits, [&](const Units& one) { return one.major == major && one.minor == minor; });
  // All GPUs of capability 5 or later have at least 64 lanes.
  limits.vector = processors * clock_khz * 1e3 * (units == std::end(kUnits) ? 128 : units->vector);
  if (units != std::end(kUnits)) limits.matrix = processors * clock_khz * 1e3 * units->matrix;
  return limits;
}

namespace {

std::vector<record::CountedKernel> counted_fields(const std::vector<CountedKernel>& kernels) {
  std::vector<record::CountedKernel> list;
  for (const CountedKernel& kernel : kernels) {
    record::CountedKernel& field = list.emplace_back();
    field.part = kernel.part;
    field.name = kernel.name;
    field.count = kernel.count;
    field.seconds = kernel.seconds;
    field.bytes = kernel.bytes;
    field.l2_bytes = kernel.l2_bytes;
    field.flop = kernel.flop;
    field.shares = {{"memory", kernel.memory_share},
                    {"l2", kernel.l2_share},
                    {"vector", kernel.vector_share},
                    {"matrix", kernel.matrix_share}};
    field.share = kernel.share();
    field.bound = kernel.bound();
  }
  return list;
}

/// Returns the operators that take longest, first. Without limits, those that move the most bytes
/// come first.
std::vector<record::OperatorCost> reckoned_fields(const OperatorLog& log,
                                                  const DeviceLimits& limits) {
  std::vector<record::OperatorCost> list;
  for (const auto& [name, one] : log.operators()) {
    const auto least = limits.least_seconds(one.cost.bytes, one.cost.flop, one.cost.matrix);
    record::OperatorCost& field = list.emplace_back();
    field.name = name;
    field.count = one.calls;
    field.bytes = one.cost.bytes;
    field.flop = one.cost.flop;
    field.least_seconds = least ? Nullable<Number>(*least) : std::nullopt;
  }
  const auto weight = [](const record::OperatorCost& one) -> double {
    return one.least_seconds ? *one.least_seconds : one.bytes;
  };
  std::ranges::stable_sort(list, std::greater<>(), weight);
  return list;
}

double intensity(double flop, double bytes) { return bytes > 0 ? flop / bytes : 0; }

void print_counted(const record::Roofline& record, size_t top) {
  fmt::print("  {:<40} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}  {:<12}  {}\n", "kernel", "count",
             "us each", "kB", "MFLOP", "FLOP/B", "limit %", "bound by", "part");
  for (size_t i = 0; i < std::min(top, record.kernels->size()); ++i) {
    const record::CountedKernel& k = (*record.kernels)[i];
    fmt::print("  {:<40} {:>6} {:>9.2f} {:>9.1f} {:>9.3f} {:>8.2f} {:>8.1f}  {:<12}  {}\n",
               k.name.substr(0, 40), k.count, k.seconds * 1e6, k.bytes * 1e-3, k.flop * 1e-6,
               intensity(k.flop, k.bytes), k.share * 100, k.bound, k.part);
  }
}

void print_reckoned(const record::Roofline& record, size_t top) {
  fmt::print("  {:<40} {:>8} {:>10} {:>10} {:>8} {:>9}\n", "operator (reckoned)", "calls", "MB",
             "MFLOP", "FLOP/B", "least us");
  for (size_t i = 0; i < std::min(top, record.operators->size()); ++i) {
    const record::OperatorCost& o = (*record.operators)[i];
    fmt::print("  {:<40} {:>8} {:>10.3f} {:>10.3f} {:>8.2f} {:>9}\n", o.name.substr(0, 40), o.count,
               o.bytes * 1e-6, o.flop * 1e-6, intensity(o.flop, o.bytes),
               o.least_seconds ? fmt::format("{:.1f}", *o.least_seconds * 1e6) : "-");
  }
}

void print_roofline(const record::Roofline& record, size_t top) {
  fmt::print("\n{} on {}: {}, {:.3f} ms a lap\n", printable(record.case_name), record.device,
             record.region, record.seconds * 1e3);
  record.source == "ncu" ? print_counted(record, top) : print_reckoned(record, top);
  if (record.share)
    fmt::print("  at its limits it would take {:.3f} ms: {:.1f} % of the limit\n",
               *record.least_seconds * 1e3, *record.share * 100);
  for (const std::string& remark : record.remarks) fmt::print("  note: {}\n", printable(remark));
}

class Roofline {
 public:
  Roofline(Session& session, const RooflineOptions& options, std::filesystem::path ncu)
      : session_(session),
        options_(options),
        ncu_(std::move(ncu)),
        region_(*range_named(options.region)),
        limits_(device_limits(session.device())),
        plan_(single_cases(session.plan(), options.only)) {}

  void run() {
    Progress progress(static_cast<int64_t>(plan_.size()) * (2 + options_.laps));
    for (const CaseGroup& group : plan_) run_case(group, progress);
  }
  bool failed() const { return failed_; }

 private:
  void run_case(const CaseGroup& group, Progress& progress) {
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const FailureText& failure) {
      session_.append_failure(group, arm, stage, failure.text);
      failed_ = true;
    };
    CaseGroupRunner runner(session_.inputs(), group, session_.device(), on_failure, [] {});
    runner.suggest(kLeaveOut);
    Arm& arm = runner.arms().front();
    arm.result_key =
        result_key(session_.inputs(), group, arm.plan, arm.decoder->options(), session_.device());
    progress.label(arm.plan.case_name);
    runner.prepare();
    double seconds = 0;
    for (int64_t lap = -1; lap < options_.laps && !arm.failed; ++lap) {
      const auto results = runner.round(std::max<int64_t>(0, lap));
      if (lap >= 0)
        seconds += results.front().times.seconds(static_cast<Region>(region_)) /
                   static_cast<double>(options_.laps);
      progress.advance(1);
    }
    if (arm.failed) return;
    auto record =
        case_record<record::Roofline>(session_.inputs(), group, arm, session_.device(), "roofline");
    record.started = utc_now();
    record.region = options_.region;
    record.laps = options_.laps;
    record.seconds = seconds;
    record.limits = limits_.field();
    if (ncu_.empty()) {
      reckon(runner, record);
    } else {
      count(record);
    }
    progress.advance(1);
    print_roofline(record, static_cast<size_t>(options_.top));
    session_.append(std::move(record));
  }

  void reckon(CaseGroupRunner& runner, record::Roofline& record) const {
    const OperatorLog log(region_);
    runner.round(0);
    record.source = "reckoned";
    record.operators = reckoned_fields(log, limits_);
    if (record.operators->empty()) {
      record.remarks.emplace_back(
          record.seconds == 0 ? "the case has no such region"
          : session_.device().is_cuda()
              ? "no operator ran in this region: a graph or kernels of rtfx, which only the GPU's "
                "counters tell of (ncu)"
              : "no operator of LibTorch moves or computes anything in this region");
      return;
    }
    if (!limits_.known()) {
      record.remarks.emplace_back("the limits of this device are not known: no shares");
      return;
    }
    double least = 0;
    for (const record::OperatorCost& one : *record.operators)
      least += one.least_seconds ? static_cast<double>(*one.least_seconds) : 0;
    record.least_seconds = least;
    record.share = least / record.seconds;
  }

  void count(record::Roofline& record) {
    const Config& config = session_.config();
    const std::filesystem::path file = config.output / "ncu.csv";
    std::filesystem::remove(file);
    const int major = at::cuda::getDeviceProperties(session_.device().index())->major;
    std::vector<std::string> arguments =
        ncu_arguments(options_.region, options_.launches, major, file);
    arguments.push_back(own_program());
    const std::vector<std::string> own = profile_arguments(config, 1, record.case_name);
    arguments.insert(arguments.end(), own.begin(), own.end());
    arguments.emplace_back("--whole-name");
    arguments.emplace_back("--recorded");
    record.source = "ncu";
    record.kernels.emplace();
    const int code = run_program(ncu_.string(), arguments, {.out = STDERR_FILENO});
    std::filesystem::remove(config.output / kRecorded);
    try {
      record.kernels = counted_fields(read_ncu_csv(file));
    } catch (const UserError& e) {
      record.remarks.push_back(
          fmt::format("ncu has counted nothing (exit code {}): {}", code, e.what()));
      failed_ = true;
    }
  }

  Session& session_;
  const RooflineOptions& options_;
  std::filesystem::path ncu_;
  RangeName region_;
  DeviceLimits limits_;
  std::vector<CaseGroup> plan_;
  bool failed_ = false;
};

}  // namespace

int roofline(const Config& given, const RooflineOptions& options) {
  const auto region = range_named(options.region);
  if (!region || info_of(*region).kind != RangeKind::region) {
    const std::vector<std::string> names(kRegionNames.begin(), kRegionNames.end());
    throw unknown_name("--region", "region", options.region, names);
  }
  const Config config = profiled_config(given, "rtfx profile --roofline");
  require_case(config, options.only);
  const bool with_gpu = config.device != "cpu" && c10::cuda::device_count() > 0;
  const std::filesystem::path ncu = with_gpu ? find_ncu() : std::filesystem::path();
  print_message("rtfx: notice: {}\n",
                ncu.empty()
                    ? "bytes and FLOP are reckoned from the shapes of operators: there is no "
                      "GPU with ncu (Nsight Compute)"
                    : "counters through " + printable(ncu.string()));
  SessionOptions records;
  records.mode = Journal::Mode::force;
  records.journal = "roofline.jsonl";
  records.profiled = true;
  Session session(config, records);
  Roofline work(session, options, ncu);
  const bool whole =
      session.run([&] { work.run(); }, "what follows are the cases that were finished");
  fmt::print("\nrecords: {}\n", printable(session.journal().path().string()));
  return !whole ? kInterrupted : work.failed() ? kFailed : kOk;
}

namespace {

constexpr const char* kCsvRemedy = "give what ncu --csv --page raw writes";
constexpr const char* kOfPeak = ".pct_of_peak_sustained_elapsed";

constexpr const char* kKernelTime = "gpu__time_duration.sum";
constexpr const char* kDramBytes = "dram__bytes.sum";
constexpr const char* kL2Bytes = "lts__t_bytes.sum";
constexpr const char* kVectorPeak = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum";
// Counts cycles of any precision. The counters of operations below have the peaks of sparse
// matrices.
constexpr const char* kMatrixBusy = "sm__pipe_tensor_cycles_active.avg";

struct Instruction {
  const char* counter;
  double flop;
};
// Instructions on fp16 and bf16 work on pairs, as ncu's own derived metrics assume
// (..._hfma_..._x4).
constexpr Instruction kInstructions[] = {
    {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2},
    {"smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 2},
    {"smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 2},
    {"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 4}};

// Before Hopper, the counters of fp16 have other names. The names of fp8's counters are unknown,
// since none has been tried.
constexpr const char* kTensorPaths[] = {
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"};

/// Reads the fields of the next line that is not empty, without their quotes.
bool read_fields(std::istream& in, std::vector<std::string>& fields) {
  std::string line;
  do {
    if (!std::getline(in, line)) return false;
  } while (line.empty() || line.starts_with("=="));  // messages of ncu
  fields.assign(1, "");
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return true;
}

/// Returns the number in a text such as "1,234.5"; 0 for a text such as "n/a".
double csv_number(std::string text) {
  std::erase(text, ',');
  return parse_number<double>(text).value_or(0);
}

/// A row whose cells are found by the names of their columns. Units are those of --print-units
/// base.
class CounterRow {
 public:
  CounterRow(const std::map<std::string, size_t>& columns, const std::vector<std::string>& fields)
      : columns_(columns), fields_(fields) {}

  double value(const std::string& counter) const {
    const auto found = columns_.find(counter);
    return found == columns_.end() || found->second >= fields_.size()
               ? 0
               : csv_number(fields_[found->second]);
  }
  double share(const std::string& counter) const { return value(counter + kOfPeak) / 100; }
  const std::string& text(const char* column) const { return fields_[columns_.at(column)]; }

 private:
  const std::map<std::string, size_t>& columns_;
  const std::vector<std::string>& fields_;
};

/// Returns the innermost phase or segment in `stack`, a cell of ncu's column of ranges. The cell
/// has the outer ranges before the inner ones, each as "domain:name:...".
std::string part_of(const std::string& stack) {
  std::string part;
  size_t last = 0;
  for (const RangeInfo& range : kRanges) {
    if (range.kind != RangeKind::phase && range.kind != RangeKind::segment) continue;
    const size_t place = stack.rfind(fmt::format(":{}:", range.name));
    if (place == std::string::npos || place < last) continue;
    last = place;
    part = range.name;
  }
  return part;
}

CountedKernel counted(const CounterRow& row) {
  CountedKernel kernel;
  kernel.seconds = row.value(kKernelTime) * 1e-9;
  kernel.bytes = row.value(kDramBytes);
  kernel.l2_bytes = row.value(kL2Bytes);
  for (const Instruction& one : kInstructions) kernel.flop += one.flop * row.value(one.counter);
  for (const char* path : kTensorPaths) kernel.flop += row.value(path);
  kernel.matrix_share = row.share(kMatrixBusy);
  kernel.memory_share = row.share(kDramBytes);
  kernel.l2_share = row.share(kL2Bytes);
  kernel.vector_share = row.share(kVectorPeak);
  return kernel;
}

/// Adds one launch to the mean of the others.
void add_launch(CountedKernel& mean, const CountedKernel& one) {
  ++mean.count;
  const double weight = 1 / static_cast<double>(mean.count);
  for (const auto member :
       {&CountedKernel::seconds, &CountedKernel::bytes, &CountedKernel::l2_bytes,
        &CountedKernel::flop, &CountedKernel::memory_share, &CountedKernel::l2_share,
        &CountedKernel::vector_share, &CountedKernel::matrix_share}) {
    mean.*member += weight * (one.*member - mean.*member);
  }
}

std::array<std::pair<double, const char*>, 4> shares_of(const CountedKernel& kernel) {
  return {{{kernel.memory_share, "memory"},
           {kernel.l2_share, "L2"},
           {kernel.vector_share, "vector units"},
           {kernel.matrix_share, "matrix units"}}};
}

}  // namespace

double CountedKernel::share() const { return std::ranges::max(shares_of(*this)).first; }

const char* CountedKernel::bound() const {
  const auto shares = shares_of(*this);
  return std::ranges::max_element(shares, {}, [](const auto& one) { return one.first; })->second;
}

std::filesystem::path find_ncu() {
  constexpr const char* kPlaces[] = {"/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu",
                                     "/usr/local/cuda*/nsight-compute-*/ncu"};
  return find_program("ncu", kPlaces);
}

std::vector<std::string> ncu_arguments(const std::string& region, int64_t launches, int major,
                                       const std::filesystem::path& file) {
  std::string counters = kKernelTime;
  const auto add = [&](const std::string& counter) { counters += "," + counter; };
  for (const char* counter : {kDramBytes, kL2Bytes}) {
    add(counter);
    add(std::string(counter) + kOfPeak);
  }
  add(std::string(kVectorPeak) + kOfPeak);
  for (const Instruction& one : kInstructions) add(one.counter);
  for (const std::string path : kTensorPaths) {
    const bool hopper = path == "sm__ops_path_tensor_src_fp16.sum";
    const bool earlier = path == "sm__ops_path_tensor_src_fp16_dst_fp32.sum";
    if ((hopper && major < 9) || (earlier && major >= 9)) continue;
    add(path);
  }
  add(std::string(kMatrixBusy) + kOfPeak);
  return {"--csv",
          "--page=raw",
          "--print-units=base",
          "--log-file=" + file.string(),
          "--force-overwrite",
          "--nvtx",
          "--nvtx-include=rtfx@" + region + "/",
          "--profile-from-start=off",
          "--graph-profiling=node",
          fmt::format("--launch-count={}", launches),
          "--metrics=" + counters};
}

std::vector<CountedKernel> read_ncu_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> fields;
  std::map<std::string, size_t> columns;
  if (in && read_fields(in, fields))
    for (size_t i = 0; i < fields.size(); ++i) columns.emplace(fields[i], i);
  if (!columns.contains("Kernel Name") || !columns.contains(kKernelTime))
    throw UserError(file.string(), "holds no counters of kernels", kCsvRemedy);
  const size_t width = fields.size();
  const auto ranges = std::ranges::find_if(fields, [](const std::string& column) {
    return column.find("Push/Pop_Range") != std::string::npos;
  });
  // The index of the column of NVTX ranges. Without such a column, it equals fields.size().
  const auto of_ranges = static_cast<size_t>(ranges - fields.begin());
  read_fields(in, fields);  // the units
  std::map<std::pair<std::string, std::string>, CountedKernel> by_name;
  while (read_fields(in, fields)) {
    if (fields.size() != width) {
      throw UserError(
          file.string(),
          fmt::format("has a row of {} fields, where its head has {}", fields.size(), width),
          kCsvRemedy);
    }
    const CounterRow row(columns, fields);
    const std::string part = of_ranges < width ? part_of(fields[of_ranges]) : "";
    add_launch(by_name[{part, short_kernel_name(row.text("Kernel Name"))}], counted(row));
  }
  std::vector<CountedKernel> kernels;
  for (auto& [name, kernel] : by_name) {
    std::tie(kernel.part, kernel.name) = name;
    kernels.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(kernels, std::greater<>(), &CountedKernel::total_seconds);
  return kernels;
}

}  // namespace rtfx
