// What searches over a decoding graph take from a batch, and what they make of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/stream_search.h"

namespace rtfx {

/// frames [B, T', D] -> [B, T', V+1] float32, contiguous, on their device: acoustic_scale * ln p(k
/// | frame t).
at::Tensor scaled_log_probs(const AcousticModel& model, const at::Tensor& frames,
                            double acoustic_scale);

/// The same on the host, and which rows hold a NaN: what a search on the CPU reads. Waits for the
/// batch's device once if that is a GPU.
struct HostEmissions {
  at::Tensor lp;   // [B, T', V+1] float32
  at::Tensor nan;  // [B] bool
};
HostEmissions host_emissions(const AcousticModel& model, const EncodedBatch& batch,
                             double acoustic_scale, HostReads& reads);

/// Numbers of the rows, long ones first, so that none is left for the end; equal ones in order.
std::vector<size_t> longest_first(const std::vector<int64_t>& lengths);

/// search(thread, row) for each row, long ones first, by `threads` threads. Throws what it throws.
void for_each_utterance(const std::vector<int64_t>& lengths, size_t threads,
                        const std::function<void(size_t thread, size_t row)>& search);

std::vector<int64_t> piece_streams(std::span<const WfstPiece> pieces);

/// Frames of each piece. Throws UserError where one is not as WfstPiece says.
std::vector<int64_t> piece_frames(std::span<const WfstPiece> pieces, int64_t columns,
                                  at::Device device);

/// One path as the result of its row: see wfst_hypotheses().
Hypothesis wfst_hypothesis(const WfstPath& path);

/// Tokens and their frames from the paths, score = -cost; on the host, where the paths are. `nan`,
/// [B] bool on the host: rows that are marked and empty, as those are that no path led through.
/// `lists`: of each row its n best paths, of which the first is the row's; without any, no lists.
Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           const std::vector<std::vector<WfstPath>>& lists = {});

}  // namespace rtfx
