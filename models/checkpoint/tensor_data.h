// The memory of tensors: typed access to their elements, and tensors that are views of a mapped
// file.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace rtfx {

/// A pointer to the elements of a contiguous tensor of type T. Throws c10::Error for another type.
/// It does what Tensor::const_data_ptr<T>() does. That template has other symbols in other releases
/// of LibTorch, and without it one build runs beside several of them.
template <class T>
const T* data_of(const at::TensorBase& tensor) {
  constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  TORCH_CHECK(tensor.scalar_type() == kType, "expected ", kType, ", found ", tensor.scalar_type());
  return static_cast<const T*>(tensor.const_data_ptr());
}

/// Bytes and what keeps them in memory.
struct StoredBytes {
  std::string_view bytes;
  std::shared_ptr<const MappedFile> file;       // where they are a part of a mapped file
  std::shared_ptr<const std::string> unpacked;  // where they were unpacked from one
};

/// A CPU tensor of `sizes` and `strides` (in elements) that begins `offset` elements into `storage`
/// and keeps it alive; copied only where its address does not suit its type. Throws UserError with
/// `where` and `name` where the tensor would reach outside of the storage, or has a negative size
/// or stride. It also throws where the tensor has more elements than the storage (views that repeat
/// elements: up to 2^20).
at::Tensor stored_tensor(const StoredBytes& storage, at::ScalarType dtype, int64_t offset,
                         const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                         const std::string& where, const std::string& name);

/// Strides of a dense tensor of `sizes`.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);

/// The index of the first element, in the order of the tensor's axes, that is NaN or infinite; none
/// for a tensor of integers. Reads the tensor once, 14 GB in a second.
std::optional<int64_t> first_not_finite(const at::Tensor& tensor);

/// Brings a tensor's pages into memory at once; nothing for a tensor that is not mapped.
void fetch_pages(const at::Tensor& tensor);

/// Gives back the memory of a tensor's pages, which are read again when needed; nothing for a
/// tensor that is not mapped.
void release_pages(const at::Tensor& tensor);

}  // namespace rtfx
