// The frames that frame skipping keeps, picked one by one, and searches of these frames.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/greedy_cases.h"
#include "tests/support/small_model.h"

namespace rtfx::test {

/// Returns the configuration of a hybrid model without durations, which "skip_blank" refuses.
inline ModelConfig rnnt_config() { return with_durations(small_config(), {}); }

/// Returns searches with the option "skip_blank" for hybrid models, on any device.
inline std::vector<Arm> skipping_arms() {
  std::vector<Arm> arms = {{"frame_looping", {{"max_symbols", 4}}},
                           {"label_looping", {{"max_symbols", 4}}},
                           {"label_looping", {{"max_symbols", 4}, {"window", 4}}}};
  const nlohmann::json beam = {{"beam_size", 3}, {"nbest", 3}};
  for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"})
    arms.push_back({name, beam});
  return arms;
}

/// Returns the indices of the frames [T, D] that a search keeps. With `keeps_first`, as for CTC
/// searches, the first frame of a run of blanks stays.
inline std::vector<int32_t> kept_frames(const AcousticModel& model, const at::Tensor& frames,
                                        double threshold, bool keeps_first) {
  std::vector<int32_t> kept;
  bool was_blank = false;
  for (int64_t t = 0; t < frames.size(0); ++t) {
    const at::Tensor logits =
        model.ctc_head->logits(frames.narrow(0, t, 1).unsqueeze(0)).to(at::kDouble).flatten();
    const double p = logits.softmax(0)[-1].item<double>();
    const bool is_blank = p > threshold;
    if (!is_blank || (keeps_first && !was_blank)) kept.push_back(static_cast<int32_t>(t));
    was_blank = is_blank;
  }
  return kept;
}

inline Hypothesis mapped(Hypothesis h, const std::vector<int32_t>& origins) {
  for (int32_t& frame : h.frames) frame = origins.at(static_cast<size_t>(frame));
  for (Hypothesis& entry : h.nbest) entry = mapped(entry, origins);
  return h;
}

/// Expects that the search with "skip_blank" gives the results of the plain search of the kept
/// frames, bit for bit. Adds the numbers of dropped frames and of tokens to `skipped` and `tokens`.
inline void expect_skips(const Arm& arm, const std::shared_ptr<const AcousticModel>& model,
                         const EncodedBatch& batch, double threshold, int64_t& skipped,
                         int64_t& tokens) {
  nlohmann::json options = arm.options;
  const auto plain = make_decoder(arm.name, options, "");
  options["skip_blank"] = threshold;
  const auto decoder = make_decoder(arm.name, options, "");
  for (const auto& d : {plain.get(), decoder.get()}) d->prepare(model, {});

  EncodedBatch shorter;
  shorter.frames = at::full_like(batch.frames, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::vector<int32_t>> origins;
  int64_t dropped = 0;
  for (size_t b = 0; b < batch.lengths_host.size(); ++b) {
    const at::Tensor frames =
        batch.frames[static_cast<int64_t>(b)].narrow(0, 0, batch.lengths_host[b]);
    origins.push_back(
        kept_frames(*model, frames, threshold, decoder->describe().head == Head::ctc));
    const auto length = static_cast<int64_t>(origins.back().size());
    for (int64_t t = 0; t < length; ++t)
      shorter.frames[static_cast<int64_t>(b)][t].copy_(
          frames[origins.back()[static_cast<size_t>(t)]]);
    shorter.lengths_host.push_back(length);
    dropped += batch.lengths_host[b] - length;
  }
  shorter.lengths = at::tensor(shorter.lengths_host, at::kLong).to(batch.lengths.device());

  const auto found = decoder->decode(batch).to_host(), kept = plain->decode(shorter).to_host();
  for (size_t b = 0; b < found.size(); ++b) {
    EXPECT_EQ(found[b], mapped(kept[b], origins[b]))
        << arm.name << options << " row " << b << " of " << batch.frames.device();
    tokens += std::ssize(found[b].tokens);
  }
  EXPECT_EQ(decoder->counters().at("frames_skipped"), dropped) << arm.name << options;
  skipped += dropped;
}

}  // namespace rtfx::test
