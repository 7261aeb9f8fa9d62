#include "models/encoder/fused/linear.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "models/checkpoint/precision_of.h"

namespace rtfx {
namespace {

constexpr double kLargestE4m3 = 448;
constexpr int64_t kWorkspace = 32 << 20;  // bytes, as NVIDIA recommends for Hopper

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusString(status));
}
#define RTFX_CUBLAS(call) check_cublas((call), #call)

/// Returns false where cuBLASLt reports that it has no such product.
bool is_supported(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(status, call);
  return true;
}

cublasLtHandle_t handle_of(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;  // live as long as the process
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) RTFX_CUBLAS(cublasLtCreate(&handle));
  return handle;
}

cudaDataType_t type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat:
      return CUDA_R_32F;
    default:
      throw std::logic_error("no fused encoder in this dtype");
  }
}

/// A product of column-major matrices. cuBLASLt computes y^T [out, rows] = W^T^T x^T.
struct Shape {
  int64_t out, in, rows;
  at::ScalarType input, output;
  cublasLtEpilogue_t epilogue;
  bool add, scaled;

  auto operator<=>(const Shape&) const = default;
};

struct Layout {
  cublasLtMatrixLayoutOpaque_t opaque;
  cublasLtMatrixLayout_t get() { return &opaque; }
};

Layout layout_of(at::ScalarType dtype, int64_t rows, int64_t columns) {
  Layout layout;
  RTFX_CUBLAS(cublasLtMatrixLayoutInit(layout.get(), type_of(dtype), static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), rows));
  return layout;
}

struct Description {
  cublasLtMatmulDescOpaque_t opaque;
  cublasLtMatmulDesc_t get() { return &opaque; }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    RTFX_CUBLAS(cublasLtMatmulDescSetAttribute(get(), attribute, &value, sizeof(value)));
  }
};

/// Returns the algorithm that cuBLASLt considers fastest, or nothing where it has none. cuBLASLt is
/// asked once for each shape and device, because the question takes tens of microseconds.
std::optional<cublasLtMatmulAlgo_t> algorithm_for(int device, const Shape& shape,
                                                  Description& description, Layout& weight,
                                                  Layout& input, Layout& output) {
  static std::mutex mutex;
  static std::map<std::pair<int, Shape>, std::optional<cublasLtMatmulAlgo_t>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find({device, shape});
  if (found != known.end()) return found->second;
  cublasLtMatmulPreferenceOpaque_t preference;
  RTFX_CUBLAS(cublasLtMatmulPreferenceInit(&preference));
  const size_t workspace = kWorkspace;
  RTFX_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
      &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)));
  cublasLtMatmulHeuristicResult_t result;
  int results = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_of(device), description.get(), weight.get(), input.get(), output.get(), output.get(),
      &preference, 1, &result, &results);
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  if (is_supported(status, "cublasLtMatmulAlgoGetHeuristic") && results == 1)
    algorithm = result.algo;
  return known.emplace(std::pair{device, shape}, algorithm).first->second;
}

}  // namespace

Linear::Linear(const at::Tensor& weight, const at::Tensor& bias, at::Device device,
               at::ScalarType dtype, bool eight_bits, double factor) {
  at::Tensor scaled = weight * factor;
  if (eight_bits) {
    const at::Tensor scale = (scaled.abs().amax(1) / kLargestE4m3).clamp_min(1e-12);
    scaled = scaled / scale.unsqueeze(1);
    scales_ = scale.to(device);
  }
  weight_ = scaled.to(device).to(eight_bits ? at::kFloat8_e4m3fn : dtype).contiguous();
  if (bias.defined()) bias_ = (bias * factor).to(device).to(dtype);
  const cudaDeviceProp* const properties = at::cuda::getDeviceProperties(weight_.device().index());
  has_cutlass_ = !eight_bits && properties->major == 9 && properties->minor == 0;
}

void Linear::operator()(const LinearInput& x, const at::Tensor& y, Result result) const {
  if (x.values.size(0) == 0) return;
  if (result == Result::replace_silu) return multiply_silu(x, y);
  if (result == Result::replace && suits(x.values.size(0), 1)) {
    return few_rows_product(half_precision_of(y.scalar_type(), "the fused encoder"),
                            operands(x, y, bias_),
                            c10::cuda::getCurrentCUDAStream(y.device().index()).stream());
  }
  if (multiply(x, y, bias_, result, eight_bits())) return;
  RTFX_CHECK(eight_bits(), "cuBLASLt has an algorithm for every product in 16 bits");
  scale_afterwards(x, y, result);
}

void Linear::scale_afterwards(const LinearInput& x, const at::Tensor& y, Result result) const {
  const at::Tensor sums =
      at::empty({x.values.size(0), weight_.size(0)}, y.options().dtype(at::kFloat));
  RTFX_CHECK(multiply(x, sums, {}, Result::replace, false),
             "cuBLASLt has an algorithm for every product of 8-bit floats without scales");
  sums.mul_(x.scales.unsqueeze(1)).mul_(scales_);
  if (bias_.defined()) sums.add_(bias_);
  if (result == Result::replace_relu) sums.relu_();
  result == Result::add ? y.add_(sums) : y.copy_(sums);
}

Product Linear::operands(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias) const {
  const auto narrowed = [](int64_t extent) { return static_cast<int32_t>(extent); };
  return {x.values.const_data_ptr(),
          weight_.const_data_ptr(),
          bias.defined() ? bias.const_data_ptr() : nullptr,
          y.mutable_data_ptr(),
          narrowed(x.values.size(0)),
          narrowed(weight_.size(1)),
          narrowed(weight_.size(0))};
}

void Linear::multiply_silu(const LinearInput& x, const at::Tensor& y) const {
  RTFX_CHECK(weight_.size(1) % 8 == 0 && weight_.size(0) % 8 == 0,
             "SiLU takes vectors of eight elements");
  const Precision precision = half_precision_of(y.scalar_type(), "the fused encoder");
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(y.device().index()).stream();
  if (fuses_silu()) return silu_product(precision, operands(x, y, bias_), stream);
  (*this)(x, y, Result::replace);
  silu(precision, y.const_data_ptr(), y.size(0), static_cast<int32_t>(y.size(1)),
       {y.mutable_data_ptr(), nullptr}, stream);
}

bool Linear::suits(int64_t rows, int32_t parts) const {
  return has_cutlass_ && suits_few_rows(rows, weight_.size(1), weight_.size(0), parts);
}

ProductParts Linear::parts(const LinearInput& x, const at::Tensor& sums) const {
  RTFX_CHECK(suits_parts(x.values.size(0)), "products in parts have few rows");
  product_parts(half_precision_of(x.values.scalar_type(), "the fused encoder"),
                operands(x, sums, {}),
                c10::cuda::getCurrentCUDAStream(sums.device().index()).stream());
  return {static_cast<const float*>(sums.const_data_ptr()),
          bias_.defined() ? bias_.const_data_ptr() : nullptr};
}

bool Linear::multiply(const LinearInput& x, const at::Tensor& y, const at::Tensor& bias,
                      Result result, bool scaled) const {
  const int64_t rows = x.values.size(0), in = weight_.size(1), out = weight_.size(0);
  const bool relu = result == Result::replace_relu;
  cublasLtEpilogue_t epilogue = relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  if (bias.defined()) epilogue = relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;

  Description description;
  RTFX_CUBLAS(cublasLtMatmulDescInit(description.get(), CUBLAS_COMPUTE_32F, CUDA_R_32F));
  description.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias.defined())
    description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data_ptr()));
  if (scaled) {
    constexpr auto kPerVector = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    description.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kPerVector);
    description.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kPerVector);
    description.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                    static_cast<const void*>(scales_.data_ptr()));
    description.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                    static_cast<const void*>(x.scales.data_ptr()));
  }

  const at::ScalarType input = weight_.scalar_type(), output = y.scalar_type();
  Layout of_weight = layout_of(input, in, out), of_input = layout_of(input, in, rows),
         of_output = layout_of(output, out, rows);
  const int device = weight_.device().index();
  const bool add = result == Result::add;
  const std::optional<cublasLtMatmulAlgo_t> algorithm =
      algorithm_for(device, {out, in, rows, input, output, epilogue, add, scaled}, description,
                    of_weight, of_input, of_output);
  if (!algorithm) return false;
  const at::Tensor workspace = at::empty({kWorkspace}, y.options().dtype(at::kByte));
  const float one = 1, beta = add ? 1 : 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_of(device), description.get(), &one, weight_.data_ptr(), of_weight.get(),
      x.values.data_ptr(), of_input.get(), &beta, y.data_ptr(), of_output.get(), y.data_ptr(),
      of_output.get(), &*algorithm, workspace.data_ptr(), kWorkspace,
      c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream());
  return is_supported(status, "cublasLtMatmul");
}

}  // namespace rtfx
