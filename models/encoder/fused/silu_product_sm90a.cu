#include "models/encoder/fused/silu_product.cuh"

namespace rtfx {
namespace {

using cute::_1, cute::_128, cute::_192, cute::_2, cute::_64;

/// Tiles of 64 rows, the fewest of wgmma, compute the fewest rows that do not exist. Two blocks of
/// a multiprocessor hide each other's start and end.
template <class Element>
using FewRows = SiluProductKernel<Element, cute::Shape<_64, _128, _64>, cute::Shape<_2, _1, _1>,
                                  Warpgroups::one, /*kBlocks=*/2>;
/// The fastest of the tiles that were measured for 5,000 rows and more.
template <class Element>
using ManyRows = SiluProductKernel<Element, cute::Shape<_128, _192, _64>, cute::Shape<_2, _1, _1>,
                                   Warpgroups::ping_pong>;

/// Chooses the kernel by the number of rows. Both give equal bits.
template <class Element>
void launch(const SiluProduct& in, cudaStream_t stream) {
  if (in.rows <= kFewSiluRows) return FewRows<Element>::launch(in, stream);
  ManyRows<Element>::launch(in, stream);
}

}  // namespace

void silu_product(Precision precision, const SiluProduct& in, cudaStream_t stream) {
  precision == Precision::bf16 ? launch<cutlass::bfloat16_t>(in, stream)
                               : launch<cutlass::half_t>(in, stream);
}

}  // namespace rtfx
