// Matrix products by CUTLASS, for GPUs of compute capability 9.0: wgmma reads tiles that a warp
// loads through the tensor memory accelerator. The epilogue adds the bias and may apply SiLU, or
// writes the sums over parts of the inputs.
//
// CUTLASS gives whole tiles of the output to blocks, and one block sums a tile over the whole
// depth. So the bits of a row depend on no other row.
//
// The kernels are launched as dependent ones (base/gpu/dependent_launch.cuh). CUTLASS waits in the
// warp that loads tiles, before its first load. The other warps read and write global memory only
// after they have multiplied tiles, so they wait through that warp. A block triggers the next
// kernel when it has multiplied its last tile.
#pragma once

// CUTLASS leaves the wait and the trigger out unless this is defined.
#define CUTLASS_ENABLE_GDC_FOR_SM90

#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <stdexcept>
#include <string>

#include "base/gpu/activation.h"
#include "base/gpu/check.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// fast_silu() of float32, in the form that CUTLASS calls.
template <class T>
struct FastSilu;
template <int kCount>
struct FastSilu<cutlass::Array<float, kCount>> {
  CUTLASS_DEVICE cutlass::Array<float, kCount> operator()(
      const cutlass::Array<float, kCount>& x) const {
    cutlass::Array<float, kCount> y;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) y[i] = fast_silu(x[i]);
    return y;
  }
};
#ifdef __CUDA_ARCH__
static_assert(cutlass::arch::IsGdcGloballyEnabled, "a dependent launch needs kernels that wait");
#endif
template <>
struct FastSilu<float> {};  // CUTLASS asks whether it has arguments

/// The warpgroups of a block that multiply. One warp loads the tiles that they read.
enum class Warpgroups {
  one,          // a block has one tile: while it applies SiLU, other blocks multiply
  ping_pong,    // two have tiles of their own: one applies SiLU while the other multiplies
  cooperative,  // two share each tile
};

/// The result that a kernel writes.
enum class ProductOutput {
  silu,    // silu(x W^T + b), in Element
  biased,  // x W^T + b, in Element
  parts,   // the sums of x W^T over each of kParts parts of the inputs, in float32
};

/// `Element` is cutlass::bfloat16_t or half_t. `Tile` has the rows, outputs and depth of a tile.
/// `Cluster` gives the blocks that share loaded data. `kBlocks` blocks fit into the memory of a
/// multiprocessor.
///
/// Each kernel adds 16 inputs at a time to one float32 accumulator, in ascending order, whatever
/// its tile is. So all kernels give equal bits, as rtfx_bench_feed_forward checks.
template <class Element, ProductOutput kOutput, class Tile, class Cluster, Warpgroups kWarpgroups,
          int kBlocks = 1>
class ProductKernel {
  static constexpr bool kInParts = kOutput == ProductOutput::parts;
  static constexpr bool kSilu = kOutput == ProductOutput::silu;
  using Result = std::conditional_t<kInParts, float, Element>;
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  static constexpr int kAligned = 16 / sizeof(Element), kAlignedResult = 16 / sizeof(Result);
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

  template <template <class> class Function, class... Inputs>
  using Compute = cutlass::epilogue::fusion::Sm90EVT<
      cutlass::epilogue::fusion::Sm90Compute<Function, float, float, kRound>, Inputs...>;
  using Biased = Compute<cutlass::plus, cutlass::epilogue::fusion::Sm90AccFetch,
                         cutlass::epilogue::fusion::Sm90RowBroadcast<0, Tile, Element, float>>;
  using Activated = Compute<FastSilu, Biased>;
  using Sums =
      Compute<cutlass::epilogue::thread::Identity, cutlass::epilogue::fusion::Sm90AccFetch>;

  static constexpr bool kOne = kWarpgroups == Warpgroups::one;
  static constexpr bool kCooperative = kWarpgroups == Warpgroups::cooperative;
  using EpilogueSchedule =
      std::conditional_t<kCooperative, cutlass::epilogue::TmaWarpSpecializedCooperative,
                         cutlass::epilogue::TmaWarpSpecialized>;
  using Schedule = std::conditional_t<
      kOne, cutlass::gemm::KernelTmaWarpSpecialized,
      std::conditional_t<kCooperative, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                         cutlass::gemm::KernelTmaWarpSpecializedPingpong>>;
  // No matrix is added (void): the epilogue needs no memory for one.
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, kAligned,
      Result, RowMajor, kAlignedResult, EpilogueSchedule,
      std::conditional_t<kInParts, Sums,
                         std::conditional_t<kSilu, Activated, Biased>>>::CollectiveOp;
  // The hardware takes 1 KiB for each block. With one warpgroup, results are placed over the
  // inputs, and only barriers (256 bytes) need more memory.
  static constexpr int kCapacity = cutlass::gemm::collective::detail::sm90_smem_capacity_bytes;
  static constexpr int kMemory = (kCapacity + 1024) / kBlocks - 1024;
  static constexpr int kNotForInputs =
      kCapacity - kMemory +
      (kOne ? 256 : static_cast<int>(sizeof(typename Epilogue::SharedStorage)));
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, kAligned, Element,
      ColumnMajor, kAligned, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<kNotForInputs>, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                      Epilogue, cutlass::gemm::PersistentScheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  static_assert(Kernel::SharedStorageSize <= kMemory);

 public:
  static void launch(const Product& in, cudaStream_t stream) {
    // A part is a matrix of CUTLASS's batch: some columns of x and W, and a matrix of y.
    const int depth = kInParts ? in.in / kParts : in.in;
    typename Gemm::Arguments arguments;
    arguments.problem_shape = {in.rows, in.out, depth, kInParts ? kParts : 1};
    arguments.mainloop.ptr_A = static_cast<const Element*>(in.x);
    arguments.mainloop.dA = {in.in, {}, kInParts ? depth : 0};
    arguments.mainloop.ptr_B = static_cast<const Element*>(in.weight);
    arguments.mainloop.dB = arguments.mainloop.dA;
    arguments.epilogue.ptr_D = static_cast<Result*>(in.y);
    arguments.epilogue.dD = {in.out, {}, kInParts ? static_cast<int64_t>(in.rows) * in.out : 0};
    [[maybe_unused]] const auto* const bias = static_cast<const Element*>(in.bias);
    if constexpr (kSilu)
      arguments.epilogue.thread = {{{}, {bias, Element(0), {}}, {}}, {}};
    else if constexpr (!kInParts)
      arguments.epilogue.thread = {{}, {bias, Element(0), {}}, {}};
    RTFX_CUDA(cudaGetDevice(&arguments.hw_info.device_id));
    RTFX_CUDA(cudaDeviceGetAttribute(&arguments.hw_info.sm_count, cudaDevAttrMultiProcessorCount,
                                     arguments.hw_info.device_id));
    // Blocks have several tiles here. CUTLASS's own estimate leaves multiprocessors idle where a
    // cluster has more than two blocks.
    if constexpr (!kOne && cute::size(Cluster{}) > 2)
      arguments.hw_info.max_active_clusters =
          cutlass::KernelHardwareInfo::query_device_max_active_clusters<Kernel>();
    check(Gemm::can_implement(arguments), "can_implement");
    Gemm gemm;
    check(gemm.initialize(arguments), "initialize");
    check(gemm.run(stream, /*cuda_adapter=*/nullptr, /*launch_with_pdl=*/true), "run");
  }

 private:
  static void check(cutlass::Status status, const char* call) {
    if (status == cutlass::Status::kSuccess) return;
    throw std::runtime_error(std::string("CUTLASS, ") + call + ": " +
                             cutlass::cutlassGetStatusString(status));
  }
};

}  // namespace rtfx
