// Says which GPUs can run the encoder in fp8.
#pragma once

namespace rtfx {

/// Returns whether GPUs of this compute capability (`major` is its first number) multiply fp8
/// matrices with one scale per row. Only Hopper does.
constexpr bool multiplies_fp8(int major) { return major == 9; }

}  // namespace rtfx
