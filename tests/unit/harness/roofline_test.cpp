#include "harness/profile/roofline.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "harness/profile/operator_cost.h"

namespace rtfx {
namespace {

OperatorCost cost(const char* name, std::vector<at::Tensor> inputs, at::Tensor output) {
  return operator_cost(name, inputs, std::vector<at::Tensor>{std::move(output)});
}

TEST(OperatorCost, ProductsOfMatrices) {
  const at::Tensor a = at::zeros({3, 5}), b = at::zeros({5, 7}), bias = at::zeros({7});
  const OperatorCost mm = cost("aten::mm", {a, b}, at::mm(a, b));
  EXPECT_TRUE(mm.matrix);
  EXPECT_EQ(mm.flop, 2 * 3 * 5 * 7);
  EXPECT_EQ(mm.bytes, 4 * (3 * 5 + 5 * 7 + 3 * 7));
  const OperatorCost addmm = cost("aten::addmm", {bias, a, b}, at::addmm(bias, a, b));
  EXPECT_EQ(addmm.flop, 2 * 3 * 5 * 7 + 3 * 7);
  EXPECT_EQ(addmm.bytes, 4 * (7 + 3 * 5 + 5 * 7 + 3 * 7));
  const at::Tensor out = at::empty({3, 7});
  EXPECT_EQ(cost("aten::mm", {a, b, out}, out).flop, mm.flop);
  EXPECT_EQ(cost("aten::mm", {a, b, out}, out).bytes, mm.bytes);
  const at::Tensor c = at::zeros({2, 3, 5}, at::kBFloat16), d = at::zeros({2, 5, 7}, at::kBFloat16);
  const OperatorCost bmm = cost("aten::bmm", {c, d}, at::bmm(c, d));
  EXPECT_EQ(bmm.flop, 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(bmm.bytes, 2 * 2 * (3 * 5 + 5 * 7 + 3 * 7));
}

TEST(OperatorCost, Convolutions) {
  const at::Tensor x = at::zeros({1, 4, 10}), w = at::zeros({6, 2, 3});  // two groups
  const at::Tensor y = at::convolution(x, w, {}, {1}, {0}, {1}, false, {0}, 2);
  EXPECT_EQ(cost("aten::mkldnn_convolution", {x, w}, y).flop, 2 * (6 * 8) * (2 * 3));
}

TEST(OperatorCost, ViewsComputeNothingAndInPlaceDoes) {
  const at::Tensor x = at::ones({4, 6});
  EXPECT_EQ(cost("aten::transpose", {x}, x.t()).bytes, 0);
  EXPECT_EQ(cost("aten::as_strided", {x}, x.narrow(0, 1, 2)).bytes, 0);
  EXPECT_EQ(cost("aten::resolve_conj", {x}, x).bytes, 0);
  const OperatorCost add = cost("aten::add_", {x, x}, x);
  EXPECT_EQ(add.bytes, 3 * 4 * 24);
  EXPECT_EQ(add.flop, 24);
  EXPECT_EQ(cost("aten::sum", {x}, x.sum()).flop, 24);  // terms
  EXPECT_EQ(cost("aten::argmax", {x}, x.argmax()).flop, 0);
  EXPECT_EQ(cost("aten::empty", {}, at::empty({9})).bytes, 0);
  const at::Tensor row = at::ones({6});
  EXPECT_EQ(cost("aten::mul", {x, row.expand({4, 6})}, x * row).bytes, 4 * (24 + 6 + 24));
}

TEST(OperatorCost, AllocationsAndChangesOfShapeCostNothing) {
  const at::Tensor x = at::ones({4, 6});
  for (const char* name : {"aten::as_strided_", "aten::resize_", "aten::set_", "aten::squeeze_",
                           "aten::unsqueeze_", "aten::transpose_"})
    EXPECT_EQ(cost(name, {x}, x).bytes, 0) << name;
  EXPECT_EQ(cost("aten::fill_", {x}, x).bytes, 2 * 4 * 24);
}

TEST(OperatorCost, PlacesForSeveralResultsAreNoInputs) {
  const at::Tensor x = at::ones({4, 6});
  const auto [values, indices] = at::max(x, 1);
  const std::vector<at::Tensor> inputs = {x, values, indices}, outputs = {values, indices};
  EXPECT_EQ(operator_cost("aten::max", inputs, outputs).bytes, 4 * 24 + 4 * 4 + 8 * 4);
}

TEST(OperatorCost, LookUpsReadWhatTheyGive) {
  const at::Tensor table = at::ones({1000, 8}), rows = at::zeros({3}, at::kLong);
  const OperatorCost found = cost("aten::index_select", {table, rows}, table.index_select(0, rows));
  EXPECT_EQ(found.bytes, 2 * 4 * 3 * 8 + 8 * 3);
  EXPECT_EQ(found.flop, 0);
}

TEST(OperatorLog, AnOperatorThatCallsOthersHasTheCostThatTheyLack) {
  const at::Tensor x = at::rand({6, 8}), table = at::rand({50, 8});
  const at::Tensor rows = at::zeros({3}, at::kLong);
  OperatorLog log(RangeName::encoder);
  {
    const ScopedRange region(RangeName::encoder);
    x.argmax(1);
    x.sum(1);
    at::embedding(table, rows);
    at::layer_norm(x, {8});
    x.to(at::kDouble);
    at::zeros({7});
  }
  double bytes = 0;
  for (const auto& [name, one] : log.operators()) {
    bytes += one.cost.bytes;
    EXPECT_GT(one.cost.bytes, 0) << name;
  }
  for (const char* name : {"aten::argmax", "aten::sum", "aten::native_layer_norm"})
    EXPECT_TRUE(log.operators().contains(name)) << name;
  for (const char* name : {"aten::empty", "aten::as_strided", "aten::layer_norm", "aten::to"})
    EXPECT_FALSE(log.operators().contains(name)) << name;
  const double read = 4.0 * 48;
  // Each tensor counts once. The mean and deviation of each row and the filled tensor come on top.
  const double least = (read + 8 * 6) + (read + 4 * 6) + (4 * 2 * 24 + 8 * 3) + 2 * read + 3 * read;
  EXPECT_GE(bytes, least);
  EXPECT_LE(bytes, 1.6 * least);
}

TEST(OperatorLog, CountsOperatorsWithACostOfTheirOwnWithinTheRegion) {
  const at::Tensor x = at::ones({2, 3}), w = at::ones({5, 3});
  OperatorLog log(RangeName::decode);
  at::linear(x, w);  // before the region
  {
    const ScopedRange region(RangeName::decode);
    at::linear(x, w);  // transposes, and calls mm or matmul
    const ScopedRange part(RangeName::decode_step);
    x.add(x);
  }
  x.add(x);
  double flop = 0;
  for (const auto& [name, one] : log.operators()) flop += one.cost.matrix ? one.cost.flop : 0;
  EXPECT_EQ(flop, 2 * 2 * 3 * 5);
  EXPECT_EQ(log.operators().at("aten::add").calls, 1);
  EXPECT_FALSE(log.operators().contains("aten::linear"));
}

TEST(DeviceLimits, OfKnownGpus) {
  // cudaDeviceGetAttribute() gives these values for an A100 of 40 GB (1,555 GB/s, 19.5 and 312
  // TFLOP/s) and an H100 SXM at its highest clock (3,352 GB/s, 66.9 and 1,071 TFLOP/s).
  const DeviceLimits a100 = limits_of(1215e3, 5120, 108, 1410e3, 8, 0);
  EXPECT_NEAR(a100.bytes, 1555e9, 1e9);
  EXPECT_NEAR(a100.vector, 19.5e12, 0.1e12);
  EXPECT_NEAR(a100.matrix, 312e12, 1e12);
  const DeviceLimits h100 = limits_of(2619e3, 5120, 132, 1980e3, 9, 0);
  EXPECT_NEAR(h100.bytes, 3352e9, 1e9);
  EXPECT_NEAR(h100.vector, 66.9e12, 0.1e12);
  EXPECT_NEAR(h100.matrix, 1071e12, 1e12);
  EXPECT_EQ(limits_of(1e6, 256, 10, 1e6, 7, 7).matrix, 0);
  EXPECT_FALSE(device_limits(at::kCPU).known());
}

TEST(DeviceLimits, LeastSecondsAreOfTheSlowerLimit) {
  DeviceLimits limits;
  EXPECT_FALSE(limits.least_seconds(1, 1, false));
  limits = {100, 10, 1000};
  EXPECT_DOUBLE_EQ(*limits.least_seconds(200, 10, false), 2);
  EXPECT_DOUBLE_EQ(*limits.least_seconds(200, 50, false), 5);
  EXPECT_DOUBLE_EQ(*limits.least_seconds(200, 50, true), 2);
}

class NcuFile {
 public:
  explicit NcuFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / fmt::format("rtfx_ncu_{}.csv", getpid())) {
    std::ofstream(path_) << text;
  }
  ~NcuFile() { std::filesystem::remove(path_); }
  NcuFile(const NcuFile&) = delete;
  NcuFile& operator=(const NcuFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

constexpr const char* kTable =
    "==PROF== Connected to process 1234\n"
    R"csv("ID","Kernel Name","Block Size","gpu__time_duration.sum","dram__bytes.sum",)csv"
    R"csv("dram__bytes.sum.pct_of_peak_sustained_elapsed","lts__t_bytes.sum",)csv"
    R"csv("lts__t_bytes.sum.pct_of_peak_sustained_elapsed",)csv"
    R"csv("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.pct_of_peak_sustained_elapsed",)csv"
    R"csv("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",)csv"
    R"csv("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",)csv"
    R"csv("sm__ops_path_tensor_src_bf16_dst_fp32.sum",)csv"
    R"csv("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed")csv"
    "\n"
    R"csv("","","","nsecond","byte","%","byte","%","%","inst","inst","","%")csv"
    "\n";

TEST(NcuCounters, MeansOfAKernelsLaunches) {
  const NcuFile file(
      std::string(kTable) +
      R"csv("0","void gemm<(int)4, ""x"">(float *, int)","(128, 1, 1)","2,000","1,000","10","4,000",)csv"
      R"csv("50","5","100","200","10,000","20")csv"
      "\n"
      R"csv("1","void gemm<(int)8>(float *, int)","(128, 1, 1)","4,000","3,000","30","4,000","30","5",)csv"
      R"csv("100","200","30,000","40")csv"
      "\n"
      R"csv("2","step(int)","(1, 1, 1)","9,000","500","1","100","2","60","7","0","n/a","n/a")csv"
      "\n");
  const std::vector<CountedKernel> kernels = read_ncu_csv(file.path());
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "step");  // 9 us in all, the others 6
  EXPECT_STREQ(kernels[0].bound(), "vector units");
  EXPECT_DOUBLE_EQ(kernels[0].share(), 0.6);
  EXPECT_DOUBLE_EQ(kernels[0].flop, 7);
  const CountedKernel& gemm = kernels[1];
  EXPECT_EQ(gemm.name, "gemm");
  EXPECT_EQ(gemm.count, 2);
  EXPECT_DOUBLE_EQ(gemm.seconds, 3e-6);
  EXPECT_DOUBLE_EQ(gemm.bytes, 2000);
  EXPECT_DOUBLE_EQ(gemm.l2_bytes, 4000);
  EXPECT_DOUBLE_EQ(gemm.flop, 100 + 2 * 200 + 20000);
  EXPECT_DOUBLE_EQ(gemm.share(), 0.4);
  EXPECT_STREQ(gemm.bound(), "L2");
  EXPECT_DOUBLE_EQ(gemm.matrix_share, 0.3);
}

TEST(NcuCounters, InstructionsOnFp16WorkOnPairs) {
  const NcuFile file(R"csv("Kernel Name","gpu__time_duration.sum",)csv"
                     R"csv("smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",)csv"
                     R"csv("smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",)csv"
                     R"csv("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum")csv"
                     "\n"
                     R"csv("","ns","inst","inst","inst")csv"
                     "\n"
                     R"csv("step(int)","1,000","100","10","1")csv"
                     "\n");
  EXPECT_DOUBLE_EQ(read_ncu_csv(file.path()).at(0).flop, 2 * 100 + 2 * 10 + 4 * 1);
}

// In ncu's column of ranges, the thread stands first, then the open ranges from the outermost on.
TEST(NcuCounters, PartsAreTheInnermostPhaseOrSegment) {
  constexpr const char* kHead =
      R"csv("ID","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",)csv"
      R"csv("Kernel Name","gpu__time_duration.sum")csv"
      "\n"
      R"csv("","","","nsecond")csv"
      "\n";
  const auto row = [](const char* ranges, const char* kernel) {
    return fmt::format("\"0\",\"7{}\",\"{}(int)\",\"1000\"\n", ranges, kernel);
  };
  constexpr const char* kRegion = R"(  ""rtfx:encoder:int64:4:argb:1:REG:""  )";
  constexpr const char* kNorm = R"(  ""rtfx:encoder.norm:none:none:argb:2:REG:""  )";
  constexpr const char* kOther = R"(  ""theirs:attention:none:none:argb:2:REG:""  )";
  const NcuFile file(kHead + row(fmt::format("{}{}", kRegion, kNorm).c_str(), "norm") +
                     row(fmt::format("{}{}{}", kRegion, kNorm, kOther).c_str(), "norm") +
                     row(kRegion, "norm"));
  const std::vector<CountedKernel> kernels = read_ncu_csv(file.path());
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].part, "encoder.norm");
  EXPECT_EQ(kernels[0].count, 2);
  EXPECT_EQ(kernels[1].part, "");
}

// The file is the output of ncu 2025.3.1 on an H200, without the columns that nobody reads. It
// comes from `rtfx profile configs/profile.json --roofline --only fused_host`.
TEST(NcuCounters, OfTheFusedKernelsOnAnH200) {
  const std::vector<CountedKernel> kernels = read_ncu_csv("tests/data/ncu_h200.csv");
  ASSERT_EQ(kernels.size(), 7U);
  EXPECT_EQ(kernels[0].name, "rtfx::advance_kernel");
  const auto joint =
      std::ranges::find(kernels, "rtfx::joint_kernel<__nv_bfloat16>", &CountedKernel::name);
  ASSERT_NE(joint, kernels.end());
  EXPECT_EQ(joint->count, 2);
  EXPECT_DOUBLE_EQ(joint->seconds, (9664 + 9472) / 2 * 1e-9);
  EXPECT_DOUBLE_EQ(joint->bytes, (792576 + 792064) / 2);
  EXPECT_GE(joint->flop, 42598400);  // the matrix units alone
  EXPECT_LT(joint->flop, 1.1 * 42598400);
}

TEST(NcuCounters, OneErrorForWhatIsNone) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      read_ncu_csv(path);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("/nowhere/ncu.csv").find("holds no counters"), std::string::npos);
  EXPECT_NE(message("README.md").find("holds no counters"), std::string::npos);
  const NcuFile empty("==PROF== Disconnected\n");
  EXPECT_NE(message(empty.path()).find("holds no counters"), std::string::npos);
  const NcuFile torn(std::string(kTable) + "\"0\",\"gemm\",\"(1");
  EXPECT_NE(message(torn.path()).find("has a row of 3 fields, where its head has 13"),
            std::string::npos);
  const NcuFile none(kTable);
  EXPECT_TRUE(read_ncu_csv(none.path()).empty());
}

TEST(NcuCounters, AsksForAsManyKernelsOfTheRegionAsTheUser) {
  const std::vector<std::string> arguments = ncu_arguments("decode", 7, 9, "out.csv");
  for (const char* wanted :
       {"--launch-count=7", "--nvtx-include=rtfx@decode/", "--log-file=out.csv"})
    EXPECT_EQ(std::ranges::count(arguments, wanted), 1) << wanted;
}

TEST(NcuCounters, AsksForCountersThatTheGpuHas) {
  const auto metrics = [](int major) {
    return ncu_arguments("decode", 7, major, "out.csv").back();
  };
  EXPECT_NE(metrics(9).find("sm__ops_path_tensor_src_fp16.sum,"), std::string::npos);
  EXPECT_EQ(metrics(9).find("src_fp16_dst_fp32"), std::string::npos);
  EXPECT_EQ(metrics(8).find("sm__ops_path_tensor_src_fp16.sum,"), std::string::npos);
  EXPECT_NE(metrics(8).find("sm__ops_path_tensor_src_fp16_dst_fp32.sum,"), std::string::npos);
}

}  // namespace
}  // namespace rtfx
