#include "algorithms/decoders/greedy/fused_looping/element_kernels.cuh"

namespace rtfx::fused {

template ElementKernels element_kernels<__half>();

}  // namespace rtfx::fused
