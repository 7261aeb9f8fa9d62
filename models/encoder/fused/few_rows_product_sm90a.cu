#include "base/gpu/rounding.h"
#include "models/encoder/fused/product_kernel.cuh"

namespace rtfx {
namespace {

using cute::Shape, cute::_1, cute::_128, cute::_2, cute::_32, cute::_64;

/// Uses the tiles that silu_product() has for this number of rows. Both give equal bits.
template <class Element, ProductOutput kOutput>
void launch(const Product& in, cudaStream_t stream) {
  constexpr auto kOne = Warpgroups::one;
  if (in.rows <= kSiluRows[0]) {
    ProductKernel<Element, kOutput, Shape<_64, _32, _128>, Shape<_1, _1, _1>, kOne>::launch(in,
                                                                                            stream);
  } else {
    ProductKernel<Element, kOutput, Shape<_64, _64, _128>, Shape<_2, _1, _1>, kOne>::launch(in,
                                                                                            stream);
  }
}

}  // namespace

void few_rows_product(Precision precision, const Product& in, cudaStream_t stream) {
  precision == Precision::bf16 ? launch<cutlass::bfloat16_t, ProductOutput::biased>(in, stream)
                               : launch<cutlass::half_t, ProductOutput::biased>(in, stream);
}

void product_parts(Precision precision, const Product& in, cudaStream_t stream) {
  precision == Precision::bf16 ? launch<cutlass::bfloat16_t, ProductOutput::parts>(in, stream)
                               : launch<cutlass::half_t, ProductOutput::parts>(in, stream);
}

bool suits_few_rows(int64_t rows, int64_t in, int64_t out, int32_t parts) {
  constexpr int64_t kMultiprocessors = 132, kMostInputs = 1024;
  if (rows < 1 || rows > kFewRows || in % (8 * parts) != 0 || out % 8 != 0) return false;
  const int64_t outputs = rows <= kSiluRows[0] ? 32 : 64;  // outputs per tile, which has 64 rows
  const int64_t tiles = ceil_div<int64_t>(rows, 64) * ceil_div(out, outputs) * parts;
  return tiles <= kMultiprocessors && in / parts <= kMostInputs;
}

}  // namespace rtfx
