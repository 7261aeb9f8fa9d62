// Batched beam searches in pieces (algorithms/shared/streams): what a piece adds to each
// hypothesis, read off its tree.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "algorithms/gpu/host_read.h"
#include "algorithms/row_state.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/streams/piece_streams.h"

namespace rtfx {

/// A beam at the start of a piece.
struct BeamPiece {
  explicit BeamPiece(const BeamHypotheses& h) : before(h.state.clone()) {}
  at::Tensor before;  // [6, B, K], BeamHypotheses::state
};

/// The tree of `h`, `columns` of which are written since `piece`. consumed [B] int64: frames of the
/// piece that are done, from which on the hypotheses' frames count now; nan [B] bool. Waits for the
/// device.
std::vector<RowPiece> read_pieces(BeamHypotheses& h, const BeamPiece& piece, int64_t columns,
                                  const at::Tensor& consumed, const at::Tensor& nan,
                                  HostReads& reads);

}  // namespace rtfx
