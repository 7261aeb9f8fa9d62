// This NVTX injection library (NVTX_INJECTION64_PATH) writes what a profiler would receive to the
// file in RTFX_NVTX_RECORD, one JSON object a line. It records only the ranges that belong to a
// domain.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

struct Domain {
  std::string name;
  std::map<uint32_t, std::string> categories;
};

struct Recorder {
  std::mutex mutex;
  std::FILE* file = std::fopen(std::getenv("RTFX_NVTX_RECORD"), "we");
  std::deque<Domain> domains;
  std::deque<std::string> strings;                       // targets of string handles
  std::map<uint64_t, std::vector<std::string>> schemas;  // names of int64 entries, by id

  void write(json line) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    line["time"] = int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
    line["thread"] = gettid();
    std::fputs((line.dump() + "\n").c_str(), file);
    std::fflush(file);
  }
};

Recorder& recorder() {
  static auto* const one = new Recorder;
  return *one;
}

template <typename Handle, typename Value>
Handle handle_of(Value& value) {
  return reinterpret_cast<Handle>(&value);
}

std::string text_of(const nvtxEventAttributes_t& event) {
  if (event.messageType == NVTX_MESSAGE_TYPE_REGISTERED)
    return *reinterpret_cast<const std::string*>(event.message.registered);
  return event.messageType == NVTX_MESSAGE_TYPE_ASCII ? event.message.ascii : "";
}

json payload_of(const nvtxEventAttributes_t& event) {
  if (event.payloadType == NVTX_PAYLOAD_TYPE_INT64) return event.payload.llValue;
  if (event.payloadType != NVTX_PAYLOAD_TYPE_EXT) return nullptr;
  // NVTX passes the pointer as a number.
  const auto* data = reinterpret_cast<const nvtxPayloadData_t*>(event.payload.ullValue);  // NOLINT
  json fields = json::object();
  const auto* value = static_cast<const int64_t*>(data->payload);
  for (const std::string& name : recorder().schemas.at(data->schemaId)) fields[name] = *value++;
  return fields;
}

nvtxDomainHandle_t create_domain(const char* name) {
  const std::lock_guard lock(recorder().mutex);
  return handle_of<nvtxDomainHandle_t>(recorder().domains.emplace_back(Domain{name, {}}));
}

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard lock(recorder().mutex);
  return handle_of<nvtxStringHandle_t>(recorder().strings.emplace_back(text));
}

void name_category(nvtxDomainHandle_t domain, uint32_t category, const char* name) {
  const std::lock_guard lock(recorder().mutex);
  reinterpret_cast<Domain*>(domain)->categories[category] = name;
}

void name_thread(uint32_t thread, const char* name) {
  const std::lock_guard lock(recorder().mutex);
  recorder().write({{"event", "thread"}, {"named", thread}, {"name", name}});
}

void name_stream(nvtx_cudaStream_t, const char* name) {
  const std::lock_guard lock(recorder().mutex);
  recorder().write({{"event", "stream"}, {"name", name}});
}

int push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t* event) {
  const std::lock_guard lock(recorder().mutex);
  const Domain& domain = *reinterpret_cast<Domain*>(handle);
  char colour[sizeof("#aabbccdd")];
  std::snprintf(colour, sizeof(colour), "#%08x", event->color);
  const auto category = domain.categories.find(event->category);
  recorder().write(
      {{"event", "push"},
       {"domain", domain.name},
       {"name", text_of(*event)},
       {"registered", event->messageType == NVTX_MESSAGE_TYPE_REGISTERED},
       {"category", category == domain.categories.end() ? json() : json(category->second)},
       {"colour", event->colorType == NVTX_COLOR_ARGB ? json(colour) : json()},
       {"payload", payload_of(*event)}});
  return 0;
}

int pop(nvtxDomainHandle_t handle) {
  const std::lock_guard lock(recorder().mutex);
  recorder().write({{"event", "pop"}, {"domain", reinterpret_cast<Domain*>(handle)->name}});
  return 0;
}

uint64_t register_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* schema) {
  const std::lock_guard lock(recorder().mutex);
  std::vector<std::string> names;
  for (size_t i = 0; i < schema->numEntries; ++i) {
    const nvtxPayloadSchemaEntry_t& entry = schema->entries[i];
    if (entry.type != NVTX_PAYLOAD_ENTRY_TYPE_INT64 || entry.offset != i * sizeof(int64_t)) abort();
    names.emplace_back(entry.name);
  }
  const uint64_t id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START + recorder().schemas.size();
  recorder().schemas[id] = std::move(names);
  return id;
}

/// Replaces a callback of the table with `function`.
template <typename Function>
void set(NvtxFunctionTable table, unsigned int size, size_t index, Function function) {
  if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || recorder().file == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) != 0)
    set(table, size, NVTX_CBID_CORE_NameOsThreadA, name_thread);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CUDART, &table, &size) != 0)
    set(table, size, NVTX_CBID_CUDART_NameCudaStreamA, name_stream);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

extern "C" NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_PAYLOAD_MODULEID || module->segmentsCount == 0) return 0;
  module->segments->functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] =
      reinterpret_cast<intptr_t>(register_schema);
  return 1;
}
