// LibTorch 2.11 exports Tensor::const_data_ptr<T>() under names that 2.12 has no more. With
// definitions of our own one build runs beside both.
#include <ATen/core/Tensor.h>

namespace rtfx {
namespace {

template <class T>
const T* checked_data(const at::TensorBase& tensor) {
  constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  TORCH_CHECK(tensor.scalar_type() == kType, "expected ", kType, ", found ", tensor.scalar_type());
  return static_cast<const T*>(tensor.const_data_ptr());
}

}  // namespace
}  // namespace rtfx

namespace at {

template <>
const bool* TensorBase::const_data_ptr<bool, 0>() const {
  return rtfx::checked_data<bool>(*this);
}
template <>
const int32_t* TensorBase::const_data_ptr<int32_t, 0>() const {
  return rtfx::checked_data<int32_t>(*this);
}
template <>
const int64_t* TensorBase::const_data_ptr<int64_t, 0>() const {
  return rtfx::checked_data<int64_t>(*this);
}
template <>
const float* TensorBase::const_data_ptr<float, 0>() const {
  return rtfx::checked_data<float>(*this);
}
template <>
const double* TensorBase::const_data_ptr<double, 0>() const {
  return rtfx::checked_data<double>(*this);
}

}  // namespace at
