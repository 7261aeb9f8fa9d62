#include "models/encoder/fused/product_kernel.cuh"

namespace rtfx {
namespace {

using cute::Shape, cute::_1, cute::_128, cute::_192, cute::_2, cute::_32, cute::_64;

/// Chooses the fastest tiles that rtfx_bench_feed_forward measured on an H200, by the number of
/// rows. 64 rows are the smallest tile of wgmma. Such tiles compute the fewest rows that do not
/// exist. Narrow tiles give more blocks, which read the weights. All kernels give equal bits.
template <class Element>
void launch(const Product& in, cudaStream_t stream) {
  constexpr auto kOne = Warpgroups::one;
  constexpr auto kSilu = ProductOutput::silu;
  if (in.rows <= kSiluRows[0]) {
    ProductKernel<Element, kSilu, Shape<_64, _32, _128>, Shape<_1, _1, _1>, kOne>::launch(in,
                                                                                          stream);
  } else if (in.rows <= kSiluRows[1]) {
    ProductKernel<Element, kSilu, Shape<_64, _64, _128>, Shape<_2, _1, _1>, kOne>::launch(in,
                                                                                          stream);
  } else if (in.rows <= kSiluRows[2]) {
    // Two blocks of a multiprocessor hide each other's start and end.
    ProductKernel<Element, kSilu, Shape<_64, _128, _64>, Shape<_2, _1, _1>, kOne,
                  /*kBlocks=*/2>::launch(in, stream);
  } else {
    ProductKernel<Element, kSilu, Shape<_128, _192, _64>, Shape<_2, _1, _1>,
                  Warpgroups::ping_pong>::launch(in, stream);
  }
}

}  // namespace

void silu_product(Precision precision, const Product& in, cudaStream_t stream) {
  precision == Precision::bf16 ? launch<cutlass::bfloat16_t>(in, stream)
                               : launch<cutlass::half_t>(in, stream);
}

}  // namespace rtfx
