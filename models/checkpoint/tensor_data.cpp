#include "models/checkpoint/tensor_data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx {

namespace {

constexpr int64_t kMostRepeated = 1 << 20;

/// Each storage owns one. LibTorch calls `forget` with it when the last tensor is gone.
struct Owner {
  StoredBytes storage;
};

void forget(void* owner) { delete static_cast<Owner*>(owner); }

/// Returns the number of elements from the first to the last that the view reaches. Returns -1
/// where it overflows.
int64_t extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (sizes[i] == 0) return 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return -1;
  }
  return last + 1;
}

int64_t elements(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  return product;
}

const Owner* owner_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &forget) return nullptr;
  const auto* const owner = static_cast<const Owner*>(data.get_context());
  return owner->storage.file ? owner : nullptr;
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(1, sizes[i]);
  return strides;
}

at::Tensor stored_tensor(const StoredBytes& storage, at::ScalarType dtype, int64_t offset,
                         const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                         const std::string& where, const std::string& name) {
  const auto fail = [&](const std::string& problem) {
    return UserError(where, fmt::format("tensor '{}' {}", name, problem),
                     "the checkpoint is damaged");
  };
  if (sizes.size() != strides.size()) throw fail("has more sizes than strides, or fewer");
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || strides[i] < 0) throw fail("has a negative size or stride");
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t held = static_cast<int64_t>(storage.bytes.size()) / item;
  const int64_t count = elements(sizes), reach = extent(sizes, strides);
  if (count < 0 || reach < 0 || offset < 0 || offset > held || reach > held - offset)
    throw fail(fmt::format("reaches outside of its storage of {} elements", held));
  if (count > std::max(held, kMostRepeated))
    throw fail("repeats its storage more often than a model does");

  const char* const begin = storage.bytes.data() + offset * item;
  const at::TensorOptions options(dtype);
  if (reinterpret_cast<uintptr_t>(begin) % static_cast<uintptr_t>(item) != 0) {
    at::Tensor dense = at::empty({reach}, options);
    std::memcpy(dense.data_ptr(), begin, static_cast<size_t>(reach * item));
    return dense.as_strided(sizes, strides);
  }
  auto* const owner = new Owner{storage};
  c10::DataPtr data(const_cast<char*>(begin), owner, &forget, at::kCPU);
  c10::Storage memory(c10::Storage::use_byte_size_t(), static_cast<size_t>(reach * item),
                      std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
  return at::empty({0}, options).set_(memory, 0, sizes, strides);
}

namespace {

/// Finds the first element whose bits of `exponent` are all set, as in a NaN and in infinity.
/// Blocks have no branch for each element, so that this is nearly as fast as memory.
template <class Word>
std::optional<int64_t> first_with_all(const at::Tensor& tensor, Word exponent) {
  const auto* const words = static_cast<const Word*>(tensor.const_data_ptr());
  const int64_t count = tensor.numel();
  constexpr int64_t kBlock = int64_t{1} << 16;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    Word found = 0;
    for (int64_t i = begin; i < end; ++i)
      found |= static_cast<Word>((words[i] & exponent) == exponent);
    for (int64_t i = begin; found != 0; ++i)
      if ((words[i] & exponent) == exponent) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> first_not_finite(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return first_with_all<uint32_t>(dense, 0x7f800000);
    case at::kBFloat16:
      return first_with_all<uint16_t>(dense, 0x7f80);
    case at::kHalf:
      return first_with_all<uint16_t>(dense, 0x7c00);
    case at::kDouble:
      return first_with_all<uint64_t>(dense, 0x7ff0000000000000);
    default:
      return std::nullopt;
  }
}

void fetch_pages(const at::Tensor& tensor) {
  if (const Owner* const owner = owner_of(tensor)) {
    owner->storage.file->fetch(
        {static_cast<const char*>(tensor.storage().data()), tensor.storage().nbytes()});
  }
}

void release_pages(const at::Tensor& tensor) {
  if (const Owner* const owner = owner_of(tensor)) {
    owner->storage.file->release(
        {static_cast<const char*>(tensor.storage().data()), tensor.storage().nbytes()});
  }
}

}  // namespace rtfx
