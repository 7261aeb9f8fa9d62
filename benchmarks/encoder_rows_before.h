// The kernels of models/encoder/fused/kernels.h as they were before they were made faster.
#pragma once

#include "models/encoder/fused/kernels.h"

namespace rtfx::before {

void layer_norm(Precision precision, const void* x, int64_t rows, int32_t width,
                const NormWeights& norm, const ProductInput& y, cudaStream_t stream);
void layer_norms(Precision precision, void* x, int64_t rows, int32_t width, const NormWeights& norm,
                 const NormWeights& next, const ProductInput& y, cudaStream_t stream);
void silu(Precision precision, const void* x, int64_t rows, int32_t width, const ProductInput& y,
          cudaStream_t stream);
void convolve_time(Precision precision, const TimeConvolution& in, const RowLayout& layout,
                   cudaStream_t stream);
void attend(Precision precision, const RelativeAttentionInput& in, const RowLayout& layout,
            cudaStream_t stream);

}  // namespace rtfx::before
