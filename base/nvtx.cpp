#include "base/nvtx.h"

#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <unistd.h>

namespace rtfx {
namespace {

struct Category {
  const char* name;
  uint32_t colour;  // ARGB
};

/// In the order of RangeKind.
constexpr std::array<Category, 6> kCategories = {{
    {"run", 0xFF555555},
    {"batch", 0xFF999999},
    {"region", 0xFF4477AA},
    {"phase", 0xFF228833},
    {"segment", 0xFFCCBB44},
    {"wait", 0xFFEE6677},
}};
constexpr Category kCase = {"case", 0xFFAA3377};
constexpr uint32_t kCaseCategory = kCategories.size() + 1;

uint64_t register_batch_size(nvtxDomainHandle_t domain) {
  constexpr std::array<nvtxPayloadSchemaEntry_t, 2> kEntries = {{
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, "rows", nullptr, 0, offsetof(BatchSize, rows), nullptr,
       nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, "frames", nullptr, 0, offsetof(BatchSize, frames), nullptr,
       nullptr},
  }};
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.name = "batch size";
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = kEntries.data();
  schema.numEntries = kEntries.size();
  schema.payloadStaticSize = sizeof(BatchSize);
  return nvtxPayloadSchemaRegister(domain, &schema);
}

/// The names that a profiler learns once, at the first range. Without a profiler all are null.
struct Domain {
  Domain() : handle(nvtxDomainCreateA("rtfx")) {
    for (size_t i = 0; i < kVocabulary.size(); ++i)
      words[i] = nvtxDomainRegisterStringA(handle, kVocabulary[i].name);
    for (uint32_t i = 0; i < kCategories.size(); ++i)
      nvtxDomainNameCategoryA(handle, i + 1, kCategories[i].name);
    nvtxDomainNameCategoryA(handle, kCaseCategory, kCase.name);
    batch_size = register_batch_size(handle);
    nvtxNameOsThreadA(static_cast<uint32_t>(gettid()), "rtfx");
  }

  nvtxDomainHandle_t handle;
  std::array<nvtxStringHandle_t, kVocabulary.size()> words{};
  uint64_t batch_size = 0;
};

/// Lives as long as the process: ranges may close in destructors of static objects.
const Domain& domain() {
  static const Domain* const created = new Domain;
  return *created;
}

nvtxEventAttributes_t attributes_of(nvtxStringHandle_t name, uint32_t category, uint32_t colour) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = category;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = colour;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = name;
  return attributes;
}

nvtxEventAttributes_t attributes_of(RangeName name) {
  const auto category = static_cast<uint32_t>(word_of(name).kind);
  return attributes_of(domain().words[static_cast<size_t>(name)], category,
                       kCategories[category - 1].colour);
}

}  // namespace

ScopedRange::ScopedRange(RangeName name) : name_(name) { open(attributes_of(name)); }

ScopedRange::ScopedRange(RangeName name, int64_t count) : name_(name) {
  nvtxEventAttributes_t attributes = attributes_of(name);
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = count;
  open(attributes);
}

ScopedRange::ScopedRange(const BatchSize& size) : name_(RangeName::batch) {
  nvtxEventAttributes_t attributes = attributes_of(name_);
  const nvtxPayloadData_t payload = {domain().batch_size, sizeof(size), &size};
  if (payload.schemaId != 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    attributes.reserved0 = 1;  // payloads that follow the pointer
    attributes.payload.ullValue = reinterpret_cast<uintptr_t>(&payload);
  } else {
    // No profiler, or an old one.
    attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    attributes.payload.llValue = size.rows;
  }
  open(attributes);
}

void ScopedRange::open(const nvtxEventAttributes_t& attributes) {
  nvtxDomainRangePushEx(domain().handle, &attributes);
  listener_ = range_listener.load(std::memory_order_acquire);
  if (listener_ != nullptr) listener_->opened(name_);
}

ScopedRange::~ScopedRange() {
  if (listener_ != nullptr) listener_->closed(name_);
  nvtxDomainRangePop(domain().handle);
}

CaseRange::CaseRange(const std::string& name) {
  const nvtxDomainHandle_t handle = domain().handle;
  const nvtxEventAttributes_t attributes =
      attributes_of(nvtxDomainRegisterStringA(handle, name.c_str()), kCaseCategory, kCase.colour);
  nvtxDomainRangePushEx(handle, &attributes);
}

CaseRange::~CaseRange() { nvtxDomainRangePop(domain().handle); }

void name_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  nvtxNameOsThreadA(static_cast<uint32_t>(gettid()), name);
}

}  // namespace rtfx
