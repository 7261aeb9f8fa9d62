// Division and rounding upwards, for numbers of blocks, tiles and bytes.
#pragma once

#include "base/gpu/host_device.h"

namespace rtfx {

/// ceil(value / step). value >= 0, step > 0, and their sum fits into T.
template <class T>
RTFX_HOST_DEVICE constexpr T ceil_div(T value, T step) {
  return (value + step - 1) / step;
}

/// The least multiple of `step` that is not below `value`, for the same values.
template <class T>
RTFX_HOST_DEVICE constexpr T round_up(T value, T step) {
  return ceil_div(value, step) * step;
}

}  // namespace rtfx
