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

/// Returns a pointer to the elements of a contiguous tensor of type T. Throws c10::Error for
/// another type. It does what Tensor::const_data_ptr<T>() does. The symbols of that template differ
/// between releases of LibTorch. Without it, one build runs with several releases.
template <class T>
const T* data_of(const at::TensorBase& tensor) {
  constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  TORCH_CHECK(tensor.scalar_type() == kType, "expected ", kType, ", found ", tensor.scalar_type());
  return static_cast<const T*>(tensor.const_data_ptr());
}

/// Bytes, and the owner that keeps them in memory.
struct StoredBytes {
  std::string_view bytes;
  std::shared_ptr<const MappedFile> file;       // set where the bytes are part of a mapped file
  std::shared_ptr<const std::string> unpacked;  // set where they were unpacked from a file
};

/// Returns a CPU tensor of `sizes` and `strides` (in elements) that begins `offset` elements into
/// `storage` and keeps it alive. The bytes are copied only where their address does not suit the
/// type. Throws UserError with `where` and `name` where the tensor would reach outside of the
/// storage, or has a negative size or stride. It also throws where the tensor has more elements
/// than both the storage and 2^20, which limits views that repeat elements.
at::Tensor stored_tensor(const StoredBytes& storage, at::ScalarType dtype, int64_t offset,
                         const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                         const std::string& where, const std::string& name);

/// Returns the strides of a dense tensor of `sizes`.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);

/// Returns the index of the first element that is NaN or infinite, in the order of the tensor's
/// axes. Returns nothing for a tensor of integers. Reads the tensor once, at 14 GB per second.
std::optional<int64_t> first_not_finite(const at::Tensor& tensor);

/// Brings a tensor's pages into memory at once. Does nothing for a tensor that is not mapped.
void fetch_pages(const at::Tensor& tensor);

/// Gives back the memory of a tensor's pages, which are read again when needed. Does nothing for a
/// tensor that is not mapped.
void release_pages(const at::Tensor& tensor);

}  // namespace rtfx
