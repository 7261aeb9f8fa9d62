// Kernels for rtfx_bench_feed_forward: matrix products with SiLU in their epilogue, tile by tile,
// and the comparison of results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/encoder/fused/kernels.h"

namespace rtfx::bench_feed_forward {

/// A product in bf16. `launch` enqueues one kernel and does not wait. It throws std::runtime_error
/// if it cannot.
struct Variant {
  std::string name;  // warpgroups, tile, cluster, blocks of a multiprocessor if more than one
  int32_t fewest_rows, most_rows;  // range of rows for which it is measured
  void (*launch)(const Product& work, cudaStream_t stream);
};

/// Returns all variants. The encoder's own variant comes first.
std::vector<Variant> variants();

/// The results to compare. `sums` is x W^T in float32, without bias.
struct Results {
  const float* sums;             // [rows, out]
  const void *bias, *present;    // [out], [rows, out]; bf16
  const void *fused, *few_rows;  // [rows, out], [few, out]; bf16 of one variant
  const void* first;             // [rows, out]; bf16 of the first variant
  int32_t rows, out, few;
};

/// Counts of elements. A unit is one in the last place of bf16.
struct Differences {
  /// Elements that differ from silu(sum + bias), computed in float32 and rounded once, by more than
  /// half a unit and 2^-14. The 2^-14 allows for the order of sums and for approximate
  /// instructions.
  unsigned long long wrong;
  /// Elements of `fused` that differ from `present` by more than one unit of the result and 0.55
  /// units of the sum with bias. `present` rounds the sum before SiLU, whose slope is at most 1.1.
  unsigned long long too_far;
  unsigned long long differ, differ_by_more_than_a_unit;  // elements of `fused` and `present`
  // Elements whose bits differ from those of a product of `few` rows, and of the first variant.
  unsigned long long few_differ, first_differ;
};

/// Compares `results` and adds the counts to `counts`, in device memory.
void compare(const Results& results, Differences* counts, cudaStream_t stream);

/// Fills `values` with random bf16 of a standard deviation of about `deviation`. Equal seeds give
/// equal values.
void fill(void* values, int64_t count, uint32_t seed, float deviation, cudaStream_t stream);

}  // namespace rtfx::bench_feed_forward
