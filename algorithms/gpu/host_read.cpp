#include "algorithms/gpu/host_read.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/nvtx.h"

namespace rtfx {

bool HostReads::any(const at::Tensor& flags) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return flags.any().item<bool>();
}

int64_t HostReads::integer(const at::Tensor& value) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return value.item<int64_t>();
}

void HostReads::copy(const at::Tensor& from, const at::Tensor& to) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  to.copy_(from);
}

void HostReads::wait(const c10::cuda::CUDAEvent& event) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  event.synchronize();
}

at::Tensor HostReads::values(const at::Tensor& values) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return values.to(at::kCPU);
}

namespace {

thread_local int allowed_depth = 0;
thread_local std::map<std::string, int> violations;

/// Returns the operators that give device data, or a shape that depends on it, to the host.
const std::set<std::string_view>& reading_operators() {
  static const std::set<std::string_view> names = {
      "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2",
      "aten::unique_consecutive",  "aten::equal",   "aten::is_nonzero"};
  return names;
}

/// Returns whether `fn` copies from a device to the host, blocking or not. That is
/// aten::copy_(self, src, non_blocking) with self on the CPU and src elsewhere.
bool copies_to_host(const at::RecordFunction& fn) {
  if (std::string_view(fn.name()) != "aten::copy_") return false;
  const auto inputs = fn.inputs();
  if (inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isTensor()) return false;
  return inputs[0].toTensor().is_cpu() && !inputs[1].toTensor().is_cpu();
}

// Collects the names of operators, because the caller would swallow an exception.
std::unique_ptr<at::ObserverContext> note_violation(const at::RecordFunction& fn) {
  if (allowed_depth == 0 && (reading_operators().contains(fn.name()) || copies_to_host(fn))) {
    ++violations[fn.name()];
  }
  return nullptr;
}

int set_cuda_mode(c10::cuda::SyncDebugMode mode) {
  auto& state = c10::cuda::warning_state();
  const auto previous = state.get_sync_debug_mode();
  state.set_sync_debug_mode(mode);
  return static_cast<int>(previous);
}

/// Watches this thread from construction to destruction, also when `work` throws.
class Watch {
 public:
  Watch()
      : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(note_violation)
                                                 .needsInputs(true)
                                                 .scopes({at::RecordScope::FUNCTION}))),
        previous_(set_cuda_mode(c10::cuda::SyncDebugMode::L_ERROR)) {
    violations.clear();
  }
  ~Watch() {
    set_cuda_mode(static_cast<c10::cuda::SyncDebugMode>(previous_));
    at::removeCallback(callback_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle callback_;
  int previous_;
};

}  // namespace

void forbid_undeclared_syncs(const std::function<void()>& work) {
  {
    const Watch watch;
    try {
      work();
    } catch (const c10::Error& e) {
      if (std::string_view(e.what()).find("synchronizing CUDA operation") == std::string_view::npos)
        throw;
      throw UserError("sync-debug", "undeclared wait for the device: a synchronising CUDA call",
                      "read device data through HostReads only");
    }
  }
  if (!violations.empty()) {
    std::vector<std::string> list;
    for (const auto& [name, count] : violations)
      list.push_back(fmt::format("{} ({} times)", name, count));
    throw UserError("sync-debug",
                    fmt::format("undeclared wait for the device: {}", fmt::join(list, ", ")),
                    "read device data through HostReads only");
  }
}

AllowSync::AllowSync() : previous_mode_(set_cuda_mode(c10::cuda::SyncDebugMode::L_DISABLED)) {
  ++allowed_depth;
}

AllowSync::~AllowSync() {
  --allowed_depth;
  set_cuda_mode(static_cast<c10::cuda::SyncDebugMode>(previous_mode_));
}

}  // namespace rtfx
