// Writes a run's hypotheses as the Open ASR Leaderboard's scripts write and read them
// (github.com/huggingface/open_asr_leaderboard, normalizer/eval_utils.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Makes `folder`, writes these files into it, and returns their names:
///
///   MODEL_rtfx-<model>-<decoder>-<batch>-<dtype>_DATASET_rtfx_<dataset>.jsonl, one per case, lines
///     {"audio_filepath": id, "duration": s, "time": s, "text": reference, "pred_text": hypothesis}
///   open_asr_leaderboard.csv, a row per model and decoder with the columns that the leaderboard's
///     script prints
///
/// A dataset's word error rate is in the leaderboard's column if its id is one of the leaderboard's
/// (librispeech_test.other, spgispeech_test, ...). `time` is the mean of the rounds' total times,
/// divided evenly among the utterances, as the leaderboard does for NeMo.
///
/// The leaderboard leaves out three kinds of utterances, and so does this: no reference, a
/// reference that whisper_english leaves empty, and the mark "ignore time segment in scoring".
/// Cases on stand-in data, without hypotheses or without a measured round are left out with a
/// notice. Throws UserError if no case is left.
std::vector<std::string> write_open_asr_leaderboard(const ResultSet& results,
                                                    const std::filesystem::path& folder);

}  // namespace rtfx
