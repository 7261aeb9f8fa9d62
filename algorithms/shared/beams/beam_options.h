// What the options of all beam searches share.
#pragma once

#include <cstdint>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// The kind of score of a beam search: the logarithm of a text's probability over the alignments
/// that the beam kept, with blanks and durations, and what a language model adds.
inline constexpr char kBeamScore[] = "text_logprob";

/// Throws UserError when `beam_size` hypotheses could not differ in their next token.
void require_beam_fits(const Description& description, int64_t beam_size,
                       const AcousticModel& model);

}  // namespace rtfx
