// The non-linearity between the two layers of a joint network. No LibTorch here: kernels include
// it.
#pragma once

namespace rtfx {

enum class Activation { relu, tanh, sigmoid };

}  // namespace rtfx
