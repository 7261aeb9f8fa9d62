#include "algorithms/decoders/greedy/fused_looping/element_kernels.cuh"

namespace rtfx::fused {

template ElementKernels element_kernels<float>();

}  // namespace rtfx::fused
