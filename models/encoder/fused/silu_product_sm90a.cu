#include "models/encoder/fused/silu_product.cuh"

namespace rtfx {
namespace {

template <class Element>
using Kernel = SiluProductKernel<Element, cute::Shape<cute::_128, cute::_128, cute::_64>,
                                 cute::Shape<cute::_2, cute::_1, cute::_1>, /*kPingPong=*/true>;

}  // namespace

void silu_product(Precision precision, const SiluProduct& in, cudaStream_t stream) {
  precision == Precision::bf16 ? Kernel<cutlass::bfloat16_t>::launch(in, stream)
                               : Kernel<cutlass::half_t>::launch(in, stream);
}

}  // namespace rtfx
