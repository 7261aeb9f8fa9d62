#include "harness/profile/ncu_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/nvtx.h"
#include "harness/profile/profile_figures.h"

namespace rtfx {
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
constexpr Instruction kInstructions[] = {
    {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2},
    {"smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 2}};

// Those of fp16 have other names before Hopper.
constexpr const char* kTensorPaths[] = {
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"};

/// The fields of the next line that is not empty, without their quotes.
bool read_fields(std::istream& in, std::vector<std::string>& fields) {
  std::string line;
  do {
    if (!std::getline(in, line)) return false;
  } while (line.empty() || line.starts_with("=="));  // ncu's own messages
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

/// "1,234.5"; 0 for what is no number, as "n/a".
double csv_number(std::string text) {
  std::erase(text, ',');
  return std::strtod(text.c_str(), nullptr);
}

/// A row by the names of its columns; units as ncu gives them with --print-units base.
class Row {
 public:
  Row(const std::map<std::string, size_t>& columns, const std::vector<std::string>& fields)
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

/// The innermost phase or segment of `stack`, the cell of ncu's column of ranges: the outer ones
/// stand before the inner, each as "domain:name:...".
std::string part_of(const std::string& stack) {
  std::string part;
  size_t last = 0;
  for (const RangeWord& word : kVocabulary) {
    if (word.kind != RangeKind::phase && word.kind != RangeKind::segment) continue;
    const size_t place = stack.rfind(fmt::format(":{}:", word.name));
    if (place == std::string::npos || place < last) continue;
    last = place;
    part = word.name;
  }
  return part;
}

CountedKernel counted(const Row& row) {
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
  const auto of_ranges = static_cast<size_t>(ranges - fields.begin());  // width: there is none
  read_fields(in, fields);                                              // units
  std::map<std::pair<std::string, std::string>, CountedKernel> by_name;
  while (read_fields(in, fields)) {
    if (fields.size() != width) {
      throw UserError(
          file.string(),
          fmt::format("has a row of {} fields, where its head has {}", fields.size(), width),
          kCsvRemedy);
    }
    const Row row(columns, fields);
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
