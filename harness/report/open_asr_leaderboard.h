// A run's hypotheses as the Open ASR Leaderboard's scripts write and read them
// (github.com/huggingface/open_asr_leaderboard, normalizer/eval_utils.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Writes into `folder`, which is made, and returns the names of:
///   MODEL_rtfx-<model>-<decoder>-<batch>-<dtype>_DATASET_rtfx_<dataset>.jsonl, one per case, lines
///     {"audio_filepath": id, "duration": s, "time": s, "text": reference, "pred_text": hypothesis}
///   open_asr_leaderboard.csv, a row per model and decoder with the columns that the leaderboard's
///     script prints; a dataset's word error rate stands in its column where its id is the
///     leaderboard's (librispeech_test.other, spgispeech_test, ...).
/// `time` is the mean of the rounds' total times, shared out evenly, as the leaderboard does for
/// NeMo. Left out, as there: utterances without a reference, with one that the normaliser
/// whisper_english leaves empty, and marked "ignore time segment in scoring". Cases on stand-in
/// data, and those without hypotheses or a measured round, are left out with a notice. Throws
/// UserError where no case is left.
std::vector<std::string> write_open_asr_leaderboard(const ResultSet& results,
                                                    const std::filesystem::path& folder);

}  // namespace rtfx
