// Typed access to the elements of a tensor.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace rtfx
