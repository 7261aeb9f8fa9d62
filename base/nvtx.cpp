#include "base/nvtx.h"

#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <unistd.h>

#include <vector>

namespace rtfx {
namespace {

struct Category {
  const char* name;
  uint32_t colour;  // ARGB
};

/// The categories in the order of RangeKind, followed by the category of cases.
constexpr std::array<Category, 7> kCategories = {{
    {"run", 0xFF555555},
    {"batch", 0xFF999999},
    {"region", 0xFF4477AA},
    {"phase", 0xFF228833},
    {"segment", 0xFFCCBB44},
    {"wait", 0xFFEE6677},
    {"case", 0xFFAA3377},
}};

uint64_t register_batch_size() {
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
  return nvtxPayloadSchemaRegister(nvtx3::domain::get<NvtxDomain>(), &schema);
}

/// The names that are registered with a profiler once, at the first range. Without a profiler all
/// are null.
struct Names {
  Names() {
    for (const RangeInfo& range : kRanges) ranges.emplace_back(range.name);
    for (const Category& category : kCategories)
      categories.emplace_back(static_cast<uint32_t>(categories.size()) + 1, category.name);
    batch_size = register_batch_size();
    nvtxNameOsThreadA(static_cast<uint32_t>(gettid()), "rtfx");
  }

  std::vector<nvtx3::registered_string_in<NvtxDomain>> ranges;
  std::vector<nvtx3::named_category_in<NvtxDomain>> categories;
  uint64_t batch_size = 0;  // the schema of a BatchSize
};

/// Returns the names. They are never destroyed, since ranges may close in destructors of static
/// objects.
const Names& names() {
  static const Names* const registered = new Names;
  return *registered;
}

template <typename... Payload>
nvtx3::event_attributes attributes_of(RangeName name, const Payload&... payload) {
  const auto kind = static_cast<size_t>(info_of(name).kind) - 1;
  return nvtx3::event_attributes(names().ranges[static_cast<size_t>(name)],
                                 names().categories[kind], nvtx3::color(kCategories[kind].colour),
                                 payload...);
}

nvtx3::event_attributes attributes_of_case(const std::string& name) {
  return nvtx3::event_attributes(nvtx3::registered_string_in<NvtxDomain>(name),
                                 names().categories.back(),
                                 nvtx3::color(kCategories.back().colour));
}

}  // namespace

ScopedRange::BatchRange::BatchRange(const BatchSize& size) {
  const nvtxPayloadData_t payload = {names().batch_size, sizeof(size), &size};
  nvtxEventAttributes_t attributes =
      *attributes_of(RangeName::batch, nvtx3::payload(size.rows)).get();
  // Without a profiler, and with an old one, no schema is registered.
  if (payload.schemaId != 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    attributes.reserved0 = 1;  // number of payloads behind the pointer
    attributes.payload.ullValue = reinterpret_cast<uintptr_t>(&payload);
  }
  nvtxDomainRangePushEx(nvtx3::domain::get<NvtxDomain>(), &attributes);
}

ScopedRange::BatchRange::~BatchRange() { nvtxDomainRangePop(nvtx3::domain::get<NvtxDomain>()); }

ScopedRange::ScopedRange(RangeName name)
    : range_(std::in_place_type<NamedRange>, attributes_of(name)), name_(name) {
  tell_opened();
}

ScopedRange::ScopedRange(RangeName name, int64_t count)
    : range_(std::in_place_type<NamedRange>, attributes_of(name, nvtx3::payload(count))),
      name_(name) {
  tell_opened();
}

ScopedRange::ScopedRange(const BatchSize& size)
    : range_(std::in_place_type<BatchRange>, size), name_(RangeName::batch) {
  tell_opened();
}

void ScopedRange::tell_opened() {
  listener_ = range_listener.load(std::memory_order_acquire);
  if (listener_ != nullptr) listener_->opened(name_);
}

ScopedRange::~ScopedRange() {
  if (listener_ != nullptr) listener_->closed(name_);
}

CaseRange::CaseRange(const std::string& name) : range_(attributes_of_case(name)) {}

void name_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  nvtxNameOsThreadA(static_cast<uint32_t>(gettid()), name);
}

}  // namespace rtfx
