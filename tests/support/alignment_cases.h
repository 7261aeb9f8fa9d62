// Emissions and texts for tests of forced alignment.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "algorithms/shared/alignment/ctc_alignment.h"

namespace rtfx::test {

/// Returns a random text of at most `most` tokens, each below `labels` - 1. Some tokens repeat, and
/// CTC can align the text with `frames` frames.
inline std::vector<int32_t> random_text(std::mt19937& random, int64_t frames, int64_t labels,
                                        int64_t most) {
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(labels) - 2);
  std::vector<int32_t> text;
  while (std::ssize(text) < most) {
    text.push_back(!text.empty() && random() % 3 == 0 ? text.back() : token(random));
    if (least_ctc_frames(text) > frames) {
      text.pop_back();
      break;
    }
  }
  return text;
}

/// A batch of emissions and a text for each row. Emissions after the end of a row are NaN.
struct AlignmentBatch {
  at::Tensor emissions;  // [B, T, labels]
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> texts;
};

/// Returns a batch in which row 0 has all frames, row 1 has neither frames nor text, and the text
/// of row 2 needs all of its frames. All other rows have random lengths.
inline AlignmentBatch random_alignments(std::mt19937& random, int64_t rows, int64_t frames,
                                        int64_t labels, int64_t most) {
  AlignmentBatch batch;
  batch.emissions = (3 * at::randn({rows, frames, labels})).log_softmax(-1);
  for (int64_t b = 0; b < rows; ++b) {
    int64_t length = b == 0 ? frames : static_cast<int64_t>(random()) % (frames + 1);
    if (b == 1) length = 0;
    std::vector<int32_t> text = random_text(random, length, labels, most);
    if (b == 2) length = least_ctc_frames(text);
    batch.emissions[b].slice(0, length).fill_(std::numeric_limits<double>::quiet_NaN());
    batch.lengths.push_back(length);
    batch.texts.push_back(std::move(text));
  }
  return batch;
}

}  // namespace rtfx::test
