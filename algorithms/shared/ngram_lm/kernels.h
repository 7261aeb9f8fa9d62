// The language model's evaluation on a GPU. Pointers are device memory; nothing is allocated and
// nothing waits, so that all of it can be recorded into a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx {

/// states [rows] -> scores [rows, V], next [rows, V] (may be null). One block per row.
void launch_advance(const NgramView& lm, const int32_t* states, int64_t rows, float* scores,
                    int32_t* next, cudaStream_t stream);

/// states [rows], labels [rows, columns] -> scores (may be null) and next [rows, columns]. One
/// thread per label; a label outside [0, V) has score 0 and keeps the state.
void launch_lookup(const NgramView& lm, const int32_t* states, const int64_t* labels, int64_t rows,
                   int64_t columns, float* scores, int32_t* next, cudaStream_t stream);

}  // namespace rtfx
