// Division and rounding upwards, for numbers of blocks, tiles and bytes.
#pragma once

#include "base/gpu/host_device.h"

namespace rtfx {

/// Returns ceil(value / step), for value >= 0 and step > 0 whose sum fits into T.
template <class T>
RTFX_HOST_DEVICE constexpr T ceil_div(T value, T step) {
  return (value + step - 1) / step;
}

/// Returns the least multiple of `step` that is not below `value`, under the same conditions.
template <class T>
RTFX_HOST_DEVICE constexpr T round_up(T value, T step) {
  return ceil_div(value, step) * step;
}

}  // namespace rtfx
