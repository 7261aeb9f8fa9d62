// Without this macro, CUTLASS multiplies a tile of 160 outputs by instructions for 32. The encoder
// has no such tile and does without the macro: the instructions that it adds take 20 s more to
// compile.
#define CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED

#include <cuda_bf16.h>

#include <limits>

#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "benchmarks/feed_forward_kernels.h"
#include "models/encoder/fused/product_kernel.cuh"

namespace rtfx::bench_feed_forward {
namespace {

constexpr int kThreads = 256;
constexpr float kSlack = 0x1p-14F;

/// Returns the distance of bf16 numbers around x. They have 8 bits, and those below 2^-126 all have
/// one distance.
__device__ float unit(float x) {
  int exponent = 0;
  frexpf(fmaxf(fabsf(x), 0x1p-126F), &exponent);
  return ldexpf(1, exponent - 8);
}

__device__ void count(bool condition, unsigned long long& counter) {
  const unsigned votes = __ballot_sync(0xffffffff, condition);
  if (threadIdx.x % 32 == 0 && votes != 0)
    atomicAdd(&counter, static_cast<unsigned long long>(__popc(votes)));
}

__global__ void __launch_bounds__(kThreads) compare_kernel(const Results in, Differences* counts) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool inside = i < static_cast<int64_t>(in.rows) * in.out;
  const auto at = [&](const void* values, int64_t index) {
    return inside ? __bfloat162float(static_cast<const __nv_bfloat16*>(values)[index]) : 0.F;
  };
  const float sum = inside ? in.sums[i] + at(in.bias, i % in.out) : 0;
  const float exact = sum / (1 + expf(-sum)), present = at(in.present, i), fused = at(in.fused, i);
  const float apart = fabsf(fused - present);
  const float of_result = unit(fmaxf(fabsf(exact), fmaxf(fabsf(present), fabsf(fused))));
  // The comparisons are negated so that a NaN counts.
  count(!(fabsf(fused - exact) <= 0.5F * unit(exact) + kSlack), counts->wrong);
  count(!(apart <= of_result + 0.55F * unit(sum) + 2 * kSlack), counts->too_far);
  count(!(apart == 0), counts->differ);
  count(!(apart <= of_result), counts->differ_by_more_than_a_unit);
  // Bits are compared, since 0 equals -0.
  const auto bits = [](const void* values, int64_t index) {
    return static_cast<const uint16_t*>(values)[index];
  };
  const bool few = i < static_cast<int64_t>(in.few) * in.out;
  count(few && bits(in.fused, i) != bits(in.few_rows, i), counts->few_differ);
  count(inside && bits(in.fused, i) != bits(in.first, i), counts->first_differ);
}

/// Writes the sum of four uniform numbers, which come from a hash of seed and index.
__global__ void __launch_bounds__(kThreads)
    fill_kernel(__nv_bfloat16* values, int64_t count, uint32_t seed, float deviation) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  uint64_t hash = (static_cast<uint64_t>(seed) << 40) + static_cast<uint64_t>(i);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  float sum = -2;
  for (int part = 0; part < 4; ++part)
    sum += static_cast<float>((hash >> (16 * part)) & 0xffff) / 65536;
  values[i] = __float2bfloat16_rn(sum * 1.7320508F * deviation);  // variance 4 / 12
}

unsigned blocks(int64_t elements) {
  return static_cast<unsigned>(ceil_div<int64_t>(elements, kThreads));
}

/// Makes a variant. `Tile` has rows, outputs and depth, and `Cluster` has rows and outputs.
template <class Tile, class Cluster, Warpgroups kWarpgroups, int kBlocks = 1>
Variant variant(int32_t fewest, int32_t most) {
  constexpr const char* kNames[] = {"one", "ping_pong", "cooperative"};
  const auto times = [](auto... extents) {
    std::string joined;
    ((joined += (joined.empty() ? "" : "x") + std::to_string(extents)), ...);
    return joined;
  };
  const Tile tile;
  const Cluster cluster;
  std::string name = kNames[static_cast<int>(kWarpgroups)];
  name += "_" + times(int{cute::get<0>(tile)}, int{cute::get<1>(tile)}, int{cute::get<2>(tile)});
  name += "_cluster_" + times(int{cute::get<0>(cluster)}, int{cute::get<1>(cluster)});
  if (kBlocks > 1) name += "_blocks_" + std::to_string(kBlocks);
  return {name, fewest, most,
          &ProductKernel<cutlass::bfloat16_t, ProductOutput::silu, Tile, Cluster, kWarpgroups,
                         kBlocks>::launch};
}

}  // namespace

std::vector<Variant> variants() {
  using cute::Shape, cute::_1, cute::_2, cute::_32, cute::_64, cute::_128, cute::_160, cute::_192;
  constexpr auto kOne = Warpgroups::one, kPingPong = Warpgroups::ping_pong;
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  return {{"encoder", 1, kAny,
           [](const Product& work, cudaStream_t stream) {
             silu_product(Precision::bf16, work, stream);
           }},
          variant<Shape<_64, _32, _128>, Shape<_1, _1, _1>, kOne>(1, 128),
          variant<Shape<_64, _64, _128>, Shape<_2, _1, _1>, kOne>(1, 512),
          variant<Shape<_64, _128, _64>, Shape<_2, _1, _1>, kOne, 2>(1, 2500),
          variant<Shape<_128, _128, _64>, Shape<_2, _1, _1>, Warpgroups::cooperative>(128, 2500),
          variant<Shape<_128, _128, _64>, Shape<_2, _2, _1>, kPingPong>(256, kAny),
          variant<Shape<_128, _160, _64>, Shape<_2, _1, _1>, kPingPong>(256, kAny),
          variant<Shape<_128, _192, _64>, Shape<_2, _1, _1>, kPingPong>(256, kAny)};
}

void compare(const Results& results, Differences* counts, cudaStream_t stream) {
  const int64_t elements = static_cast<int64_t>(results.rows) * results.out;
  compare_kernel<<<blocks(elements), kThreads, 0, stream>>>(results, counts);
  RTFX_CUDA(cudaGetLastError());
}

void fill(void* values, int64_t count, uint32_t seed, float deviation, cudaStream_t stream) {
  fill_kernel<<<blocks(count), kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(values), count,
                                                      seed, deviation);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx::bench_feed_forward
