#include "harness/profile/cupti_collector.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "harness/machine/device_memory.h"

namespace rtfx {
namespace {

// Calls that LibTorch makes around every operator. They say nothing about the device, and recording
// them would slow down the launches that are measured.
constexpr CUpti_runtime_api_trace_cbid kUninteresting[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceCount_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000,
    CUPTI_RUNTIME_TRACE_CBID_cudaFuncGetAttributes_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6050,
    CUPTI_RUNTIME_TRACE_CBID_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000,
};

// Calls that libraries make directly to the driver.
constexpr CUpti_driver_api_trace_cbid kDriverCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
};

// CONCURRENT_KERNEL makes CUPTI record each kernel of a graph, unless there is GRAPH_TRACE too.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME};

constexpr size_t kBufferBytes = 8 << 20;

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return out;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy device to device";
    default:
      return "copy";
  }
}

Span span_of(uint64_t begin, uint64_t end) {
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

}  // namespace

struct CuptiCollector::State {
  CuptiLibrary library;
  CUpti_SubscriberHandle subscriber = nullptr;

  // CUPTI hands over buffers on threads of its own.
  std::mutex mutex;
  Activity activity;
  std::unordered_map<std::string, uint32_t> raw_names;  // indexed by CUPTI's names
  std::unordered_map<std::string, uint32_t> names;      // indexed by shown names
  std::unordered_map<uint64_t, uint32_t> call_names;    // indexed by domain and callback id
  int64_t dropped = 0, without_time = 0;
  std::atomic<bool> forced = false;  // a forced flush is under way

  // CUPTI's callbacks have no room for a pointer to their owner, and there is one subscriber only.
  // The last buffers may come while the collector ends, so its end takes the mutex, too.
  static std::mutex current_mutex;
  static State* current;

  static void set_current(State* state) {
    const std::lock_guard lock(current_mutex);
    current = state;
  }

  uint32_t name_index(const std::string& shown) {
    const auto [found, fresh] =
        names.try_emplace(shown, static_cast<uint32_t>(activity.names.size()));
    if (fresh) activity.names.push_back(shown);
    return found->second;
  }

  uint32_t kernel_name(const char* raw) {
    const std::string key = raw == nullptr ? "unknown" : raw;
    if (const auto found = raw_names.find(key); found != raw_names.end()) return found->second;
    const uint32_t index = name_index(short_kernel_name(demangled(key.c_str())));
    raw_names.emplace(key, index);
    return index;
  }

  uint32_t call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id, CallKind& kind) {
    const uint64_t key = static_cast<uint64_t>(domain) << 32 | id;
    auto found = call_names.find(key);
    if (found == call_names.end()) {
      const char* raw = nullptr;
      const bool known = library.get_callback_name(domain, id, &raw) == CUPTI_SUCCESS && raw;
      found =
          call_names.emplace(key, name_index(short_call_name(known ? raw : "unknown call"))).first;
    }
    kind = classify_call(activity.names[found->second]);
    return found->second;
  }

  /// Work without time stamps cannot be placed.
  bool has_time(uint64_t begin, uint64_t end) {
    const bool good = begin != 0 && end >= begin;
    without_time += good ? 0 : 1;
    return good;
  }

  void keep(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        if (!has_time(k->start, k->end)) return;
        activity.kernels.push_back({span_of(k->start, k->end), kernel_name(k->name), k->streamId,
                                    k->graphId != 0 || k->graphNodeId != 0, k->correlationId});
        return;
      }
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
        const auto* g = reinterpret_cast<const CUpti_ActivityGraphTrace2*>(record);
        if (!has_time(g->start, g->end)) return;
        activity.kernels.push_back({span_of(g->start, g->end), name_index(kWholeGraph), g->streamId,
                                    true, g->correlationId});
        return;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* c = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        if (!has_time(c->start, c->end)) return;
        activity.copies.push_back({span_of(c->start, c->end), name_index(copy_name(c->copyKind)),
                                   c->streamId, c->bytes, c->correlationId});
        return;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* m = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        if (!has_time(m->start, m->end)) return;
        activity.copies.push_back({span_of(m->start, m->end), name_index("memset"), m->streamId,
                                   m->bytes, m->correlationId});
        return;
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME:
      case CUPTI_ACTIVITY_KIND_DRIVER: {
        const auto* a = reinterpret_cast<const CUpti_ActivityAPI*>(record);
        if (a->start == 0 || a->end < a->start) return;
        CallRun call{span_of(a->start, a->end), 0, a->threadId, CallKind::other, a->correlationId};
        const bool runtime = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
        call.name = call_name(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API,
                              a->cbid, call.kind);
        activity.calls.push_back(call);
        return;
      }
      default:
        return;
    }
  }

  void take(uint8_t* buffer, size_t bytes) {
    const std::lock_guard lock(mutex);
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    while ((result = library.activity_get_next_record(buffer, bytes, &record)) == CUPTI_SUCCESS)
      keep(record);
    // The end of a buffer is MAX_LIMIT_REACHED. Any other result means that the rest was not read.
    // A forced flush brings incomplete records, which are left out.
    if (bytes > 0 && !forced && result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++dropped;
    size_t lost = 0;
    if (library.activity_get_num_dropped_records(nullptr, 0, &lost) == CUPTI_SUCCESS)
      dropped += static_cast<int64_t>(lost);
  }

  // An exception must not leave a callback; without a buffer CUPTI drops records and counts them.
  static void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* most) {
    *buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *most = 0;
  }

  static void CUPTIAPI buffer_completed(CUcontext, uint32_t, uint8_t* buffer, size_t,
                                        size_t valid) {
    const std::lock_guard lock(current_mutex);
    if (current != nullptr && buffer != nullptr) {
      try {
        current->take(buffer, valid);
      } catch (...) {
        const std::lock_guard counts(current->mutex);
        ++current->dropped;
      }
    }
    std::free(buffer);
  }

  static void CUPTIAPI ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  }

  /// Sets everything that must be set before CUDA starts. Adds optional kinds that CUPTI refuses to
  /// `refused`.
  CUptiResult enable(GraphTrace graphs, std::string& refused) {
    const auto optional = [&](const char* what, CUptiResult result) {
      if (result == CUPTI_SUCCESS) return;
      refused += fmt::format("{}{}: {}", refused.empty() ? "" : "; ", what, library.text(result));
    };
    if (graphs == GraphTrace::node) {
      optional("kernels started by graphs", library.activity_enable_device_graph(1));
      size_t bytes = sizeof(size_t), graph_buffer = 64 << 20;  // a loop on the device, all at once
      optional("larger graph buffer",
               library.activity_set_attribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS,
                                              &bytes, &graph_buffer));
    }
    CUptiResult result = library.activity_register_callbacks(buffer_requested, buffer_completed);
    for (const CUpti_ActivityKind kind : kKinds) {
      if (result == CUPTI_SUCCESS) result = library.activity_enable(kind);
    }
    if (result == CUPTI_SUCCESS && graphs == GraphTrace::graph)
      result = library.activity_enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    if (result != CUPTI_SUCCESS) return result;
    for (const CUpti_runtime_api_trace_cbid id : kUninteresting)
      library.activity_enable_runtime_api(id, 0);
    for (const CUpti_driver_api_trace_cbid id : kDriverCalls)
      optional("driver calls", library.activity_enable_driver_api(id, 1));
    return result;
  }
};

std::mutex CuptiCollector::State::current_mutex;
CuptiCollector::State* CuptiCollector::State::current = nullptr;

std::string driving_profiler() {
  std::string found;
  for (const char* name : {"NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY",
                           "CUDA_INJECTION64_PATH", "NV_NSIGHT_INJECTION_PORT_BASE"}) {
    if (std::getenv(name) != nullptr) found += (found.empty() ? "" : ", ") + std::string(name);
  }
  return found;
}

std::unique_ptr<CuptiCollector> CuptiCollector::start(GraphTrace graphs, std::string& problem) {
  RTFX_CHECK(State::current == nullptr, "one collector at a time");
  auto state = std::make_unique<State>();
  const CuptiLibrary& library = state->library;
  if (!state->library.load(problem)) return nullptr;
  CUptiResult result = library.subscribe(&state->subscriber, State::ignore_callback, nullptr);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    problem = "another profiler is collecting already";
    return nullptr;
  }
  std::string refused;
  if (result == CUPTI_SUCCESS) {
    State::set_current(state.get());
    result = state->enable(graphs, refused);
  }
  if (result != CUPTI_SUCCESS) {
    State::set_current(nullptr);
    if (state->subscriber != nullptr) library.unsubscribe(state->subscriber);
    problem = fmt::format("{} cannot collect: {}{}", library.path, library.text(result),
                          result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
                              ? "; the driver allows profiling to administrators only"
                              : "");
    return nullptr;
  }
  std::unique_ptr<CuptiCollector> collector(new CuptiCollector);
  collector->description_ = fmt::format("CUPTI {} ({}){}", library.version, library.path,
                                        refused.empty() ? "" : "; refused: " + refused);
  collector->state_ = std::move(state);
  return collector;
}

CuptiCollector::~CuptiCollector() {
  const CuptiLibrary& library = state_->library;
  state_->forced = true;
  for (const CUpti_ActivityKind kind : kKinds) library.activity_disable(kind);
  library.activity_disable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  for (const CUpti_driver_api_trace_cbid id : kDriverCalls)
    library.activity_enable_driver_api(id, 0);
  library.activity_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  library.unsubscribe(state_->subscriber);
  // A buffer that arrives later still, from a thread of CUPTI, finds nobody and is freed.
  State::set_current(nullptr);
}

int64_t CuptiCollector::now() const {
  uint64_t time = 0;
  const CUptiResult result = state_->library.get_timestamp(&time);
  RTFX_CHECK(result == CUPTI_SUCCESS, "cuptiGetTimestamp: " + state_->library.text(result));
  return static_cast<int64_t>(time);
}

void CuptiCollector::begin() {
  flush();
  size_t before = 0;
  state_->library.activity_get_num_dropped_records(nullptr, 0, &before);
  const std::lock_guard lock(state_->mutex);
  state_->activity.kernels.clear();
  state_->activity.copies.clear();
  state_->activity.calls.clear();
  state_->dropped = state_->without_time = 0;
}

void CuptiCollector::flush() {
  const CUptiResult result = state_->library.activity_flush_all(0);
  RTFX_CHECK(result == CUPTI_SUCCESS, "cuptiActivityFlushAll: " + state_->library.text(result));
}

Activity CuptiCollector::end() {
  flush();
  state_->forced = true;
  state_->library.activity_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  state_->forced = false;
  size_t lost = 0;
  state_->library.activity_get_num_dropped_records(nullptr, 0, &lost);
  const std::lock_guard lock(state_->mutex);
  state_->dropped += static_cast<int64_t>(lost);
  return state_->activity;
}

int64_t CuptiCollector::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

int64_t CuptiCollector::without_time() const {
  const std::lock_guard lock(state_->mutex);
  return state_->without_time;
}

}  // namespace rtfx
