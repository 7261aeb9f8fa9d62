#include "algorithms/foreign_code.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace rtfx {
namespace {

at::Context& torch_settings() { return at::globalContext(); }

/// A setting as a number. at::ThreadLocalState puts back the settings without `set`.
struct Setting {
  const char* name;
  int64_t (*get)();
  void (*set)(int64_t value);
  enum class Kind { number, toggle, other } kind = Kind::toggle;

  std::string text(int64_t value) const {
    if (kind == Kind::toggle) return value == 0 ? "off" : "on";
    return std::to_string(value);
  }
  std::string change(int64_t from, int64_t to) const {
    return kind == Kind::other ? name : fmt::format("{} ({} -> {})", name, text(from), text(to));
  }
};

template <at::Float32Backend backend, at::Float32Op op>
constexpr Setting precision(const char* name) {
  return {name, [] { return static_cast<int64_t>(torch_settings().float32Precision(backend, op)); },
          [](int64_t value) {
            // AcousticModel::build() turns the older switches off, too. LibTorch throws if older
            // and newer switches contradict each other.
            torch_settings().setAllowTF32CuBLAS(false);
            torch_settings().setAllowTF32CuDNN(false);
            torch_settings().setFloat32Precision(backend, op,
                                                 static_cast<at::Float32Precision>(value));
          },
          Setting::Kind::other};
}

template <at::DeviceType device>
constexpr Setting autocast(const char* name) {
  return {name, [] { return int64_t{at::autocast::is_autocast_enabled(device)}; },
          [](int64_t value) { at::autocast::set_autocast_enabled(device, value != 0); }};
}

template <at::DeviceType device>
constexpr Setting autocast_dtype(const char* name) {
  return {name, [] { return static_cast<int64_t>(at::autocast::get_autocast_dtype(device)); },
          [](int64_t value) {
            at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(value));
          },
          Setting::Kind::other};
}

using Unit = at::Float32Backend;
using Op = at::Float32Op;

constexpr std::array kSettings = {
    Setting{"the number of threads", [] { return int64_t{at::get_num_threads()}; },
            [](int64_t value) { at::set_num_threads(static_cast<int>(value)); },
            Setting::Kind::number},
    Setting{"gradients", [] { return int64_t{c10::GradMode::is_enabled()}; }, nullptr},
    Setting{"inference mode", [] { return int64_t{c10::InferenceMode::is_enabled()}; }, nullptr},
    Setting{"modes of torch functions, such as torch.device(...)",
            [] { return int64_t{at::impl::PythonTorchFunctionTLS::stack_len()}; }, nullptr,
            Setting::Kind::number},
    Setting{"modes of torch's dispatch",
            [] { return int64_t{c10::impl::TorchDispatchModeTLS::stack_len()}; }, nullptr,
            Setting::Kind::number},
    autocast<at::kCPU>("autocast on the CPU"),
    autocast<at::kCUDA>("autocast on the GPU"),
    autocast_dtype<at::kCPU>("the dtype of autocast on the CPU"),
    autocast_dtype<at::kCUDA>("the dtype of autocast on the GPU"),
    Setting{"the cache of autocast",
            [] { return int64_t{at::autocast::is_autocast_cache_enabled()}; },
            [](int64_t value) { at::autocast::set_autocast_cache_enabled(value != 0); }},
    Setting{"the default dtype",
            [] { return static_cast<int64_t>(c10::get_default_dtype_as_scalartype()); },
            [](int64_t value) {
              c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<at::ScalarType>(value)));
            },
            Setting::Kind::other},
    precision<Unit::GENERIC, Op::ALL>("the precision of float32"),
    precision<Unit::CUDA, Op::ALL>("the precision of float32 on the GPU"),
    precision<Unit::CUDA, Op::MATMUL>("the precision of float32 products on the GPU"),
    precision<Unit::CUDA, Op::CONV>("the precision of float32 convolutions on the GPU"),
    precision<Unit::CUDA, Op::RNN>("the precision of float32 LSTMs on the GPU"),
    precision<Unit::MKLDNN, Op::ALL>("the precision of float32 on the CPU"),
    precision<Unit::MKLDNN, Op::MATMUL>("the precision of float32 products on the CPU"),
    precision<Unit::MKLDNN, Op::CONV>("the precision of float32 convolutions on the CPU"),
    precision<Unit::MKLDNN, Op::RNN>("the precision of float32 LSTMs on the CPU"),
    Setting{"cuDNN", [] { return int64_t{torch_settings().userEnabledCuDNN()}; },
            [](int64_t value) { torch_settings().setUserEnabledCuDNN(value != 0); }},
    Setting{"cuDNN's benchmark", [] { return int64_t{torch_settings().benchmarkCuDNN()}; },
            [](int64_t value) { torch_settings().setBenchmarkCuDNN(value != 0); }},
    Setting{"cuDNN's determinism", [] { return int64_t{torch_settings().deterministicCuDNN()}; },
            [](int64_t value) { torch_settings().setDeterministicCuDNN(value != 0); }},
    Setting{"oneDNN", [] { return int64_t{torch_settings().userEnabledMkldnn()}; },
            [](int64_t value) { torch_settings().setUserEnabledMkldnn(value != 0); }},
    Setting{"deterministic algorithms",
            [] { return int64_t{torch_settings().deterministicAlgorithms()}; },
            [](int64_t value) {
              torch_settings().setDeterministicAlgorithms(
                  value != 0, torch_settings().deterministicAlgorithmsWarnOnly());
            }},
    Setting{"the rounding mode", [] { return int64_t{std::fegetround()}; },
            [](int64_t value) { std::fesetround(static_cast<int>(value)); }, Setting::Kind::other},
};

/// Returns whether this thread takes denormal numbers for zero, as operands or as results.
bool flushes_denormals() {
  volatile float least = std::numeric_limits<float>::min();
  volatile float denormal = std::numeric_limits<float>::denorm_min();
  return least / 2 == 0 || denormal * 2 == 0;
}

int open_autocasts() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

/// Returns nullopt where the GPU is not in use, since asking for its stream would initialise it.
std::optional<c10::Stream> current_stream() {
  if (!at::hasCUDA()) return std::nullopt;
  const c10::impl::VirtualGuardImpl gpu(at::kCUDA);
  const c10::Device device = gpu.getDevice();
  if (!at::detail::getCUDAHooks().hasPrimaryContext(device.index())) return std::nullopt;
  return gpu.getStream(device);
}

/// Returns an empty path where the directory has been removed.
std::filesystem::path working_directory() {
  std::error_code failed;
  return std::filesystem::current_path(failed);
}

at::Tensor flat_bytes(const at::Tensor& tensor) {
  return tensor.contiguous().reshape(-1).view(at::kByte);
}

/// Compares bit for bit, since rows may hold NaN behind their lengths.
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = flat_bytes(a), right = flat_bytes(b);
  if (!left.is_cpu()) return at::equal(left, right);
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

}  // namespace

SharedSettings::SharedSettings()
    : autocasts_(open_autocasts()), stream_(current_stream()), flushes_(flushes_denormals()) {
  for (const Setting& setting : kSettings) values_.push_back(setting.get());
  std::fegetenv(&arithmetic_);
  sched_getaffinity(0, sizeof cpus_, &cpus_);
  folder_ = working_directory();
}

std::vector<std::string> SharedSettings::restore() const {
  std::vector<std::string> changes;
  std::array<int64_t, kSettings.size()> found{};
  std::ranges::transform(kSettings, found.begin(), [](const Setting& s) { return s.get(); });
  const bool flushes = flushes_denormals();
  at::ThreadLocalState::setThreadLocalState(torch_);
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (found[i] == values_[i]) continue;
    changes.push_back(kSettings[i].change(values_[i], found[i]));
    if (kSettings[i].set != nullptr) kSettings[i].set(values_[i]);
  }
  if (flushes != flushes_) changes.emplace_back("what denormal numbers count as");
  std::fesetenv(&arithmetic_);
  const int autocasts = open_autocasts();
  for (int n = autocasts; n > autocasts_; --n) at::autocast::decrement_nesting();
  for (int n = autocasts; n < autocasts_; ++n) at::autocast::increment_nesting();
  if (autocasts != autocasts_) at::autocast::clear_cache();
  cpu_set_t cpus{};
  sched_getaffinity(0, sizeof cpus, &cpus);
  if (CPU_EQUAL(&cpus, &cpus_) == 0) {
    changes.push_back(
        fmt::format("the number of CPUs ({} -> {})", CPU_COUNT(&cpus_), CPU_COUNT(&cpus)));
    sched_setaffinity(0, sizeof cpus_, &cpus_);
  }
  if (working_directory() != folder_) {
    changes.emplace_back("the working directory");
    std::error_code failed;
    std::filesystem::current_path(folder_, failed);
  }
  if (stream_ && current_stream() != stream_) {
    changes.emplace_back("the current GPU or its stream");
    const c10::impl::VirtualGuardImpl gpu(at::kCUDA);
    gpu.setDevice(stream_->device());
    gpu.exchangeStream(*stream_);
  }
  return changes;
}

SharedTensors::SharedTensors(std::map<std::string, at::Tensor> tensors)
    : tensors_(std::move(tensors)) {
  for (const auto& [name, tensor] : tensors_) copies_[name] = tensor.clone();
}

std::vector<std::string> SharedTensors::restore() const {
  const c10::InferenceMode inference;
  std::vector<std::string> changed;
  for (const auto& [name, tensor] : tensors_) {
    const at::Tensor& copy = copies_.at(name);
    if (same_bytes(tensor, copy)) continue;
    changed.push_back(name);
    tensor.copy_(copy);
  }
  return changed;
}

ForkGuard::ForkGuard() : process_(getpid()) {}

ForkGuard::~ForkGuard() {
  if (getpid() != process_) _exit(0);
}

void call_decoder(const Decoder& decoder, std::initializer_list<const SharedTensors*> shared,
                  const std::function<void()>& work) {
  if (!decoder.is_foreign()) return work();
  const ForkGuard fork_guard;
  const SharedSettings settings;
  std::exception_ptr failure;
  std::string also;
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    also = fmt::format("; it also failed: {}", error.what());
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<std::string> changes = settings.restore();
  try {
    for (const SharedTensors* tensors : shared)
      for (std::string& name : tensors->restore()) changes.push_back(std::move(name));
  } catch (...) {
    // After a fault of the device, the comparison fails, too. The error of `work` then says more.
    if (failure) std::rethrow_exception(failure);
    throw;
  }
  if (!changes.empty()) {
    throw UserError(
        decoder.describe().name,
        fmt::format("changed what all decoders share: {}{}", fmt::join(changes, ", "), also),
        "it was put back; let the decoder work on copies and leave settings as it finds them");
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rtfx
