// The results of a decoder: token ids, the encoder frame of each token, durations (TDT) and scores.
// They describe the best hypothesis or the n best.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace rtfx {

class MinimumBayesRisk;  // algorithms/nbest_risk.h
class Tokenizer;         // models/tokenizers/tokenizer.h

/// A word that a search found in a lexicon or decoding graph. Its text need not be what its tokens
/// spell: a lexicon has pronunciations, capitals, abbreviations and homographs.
struct FoundWord {
  std::string text;
  /// The frame at which the path takes the arc with the word's label. On the path, this arc does
  /// not come before the word's first token, nor after the first token of the next word.
  int32_t frame = 0;
  bool operator==(const FoundWord&) const = default;
};

/// One utterance's result on the host. Frames are encoder frames (80 ms at 8x sub-sampling).
struct Hypothesis {
  std::vector<int32_t> tokens;
  std::vector<int32_t> frames;     // frame at which each token was emitted
  std::vector<int32_t> durations;  // TDT: frames that the search advances after each token (0: it
                                   // stays at the frame); empty for other models
  float score = 0;                 // Description::score_kind names its kind
  bool nan = false;                // the result cannot be used, see Hypotheses::nan

  /// The n-best list, best first. Its first entry is this hypothesis. It is empty unless the
  /// decoder was asked for a list. Entries have no list of their own.
  std::vector<Hypothesis> nbest = {};

  /// The words of a search with a word table. Without them, the tokens spell the text.
  std::optional<std::vector<FoundWord>> words = {};

  bool operator==(const Hypothesis&) const = default;
};

/// Returns the text of a hypothesis: its words with spaces between them, or else what its tokens
/// spell.
std::string text_of(const Hypothesis& hypothesis, const Tokenizer& tokenizer);

/// Adds `shift` to all frames of a hypothesis: of its tokens, its words and its n-best list.
void move_frames(Hypothesis& hypothesis, int64_t shift);

/// The words that a search with a word table found for a batch. `rows` holds the words of each row,
/// and `lists` those of each entry of its n-best list, if there is one.
struct FoundWords {
  std::vector<std::vector<FoundWord>> rows;
  std::vector<std::vector<std::vector<FoundWord>>> lists;
};

/// The N best hypotheses of each row, best first. The decoder ranks them by score or by score /
/// (tokens + 1). A score of -inf marks an unused entry. Unused entries come last.
struct NBest {
  at::Tensor lengths;    // [B, N] int32
  at::Tensor tokens;     // [B, N, capacity] int32
  at::Tensor frames;     // [B, N, capacity] int32
  at::Tensor durations;  // [B, N, capacity] int32, undefined tensor unless TDT
  at::Tensor scores;     // [B, N] float32

  bool defined() const { return lengths.defined(); }
};

/// A batch of results as a structure of arrays. All tensors are on one device: the GPU if the
/// search made them there, otherwise the host, even if the model is on a GPU. Slots at or beyond
/// `lengths` are undefined. The tensors belong to the caller: they never alias buffers that a later
/// decode() writes. The harness refuses wrong shapes, dtypes, ids, frames, durations and scores
/// (result_check.h).
struct Hypotheses {
  at::Tensor lengths;    // [B] int32, at most capacity
  at::Tensor tokens;     // [B, capacity] int32, ids of the vocabulary, never blank
  at::Tensor frames;     // [B, capacity] int32, frames of the row itself, never decreasing
  at::Tensor durations;  // [B, capacity] int32, undefined tensor unless TDT
  at::Tensor scores;     // [B] float32, finite
  at::Tensor nan;  // [B] bool: the row cannot be used, since its frames held a NaN or no hypothesis
                   // has a finite score; `rtfx run` then fails the decoder's case
  NBest nbest = {};  // entry 0 must be the result itself, since to_host() reads the list alone;
                     // undefined unless the decoder has a list
  std::shared_ptr<const FoundWords> words = {};  // on the host; null: the tokens spell the texts
  /// to_host() sorts the n-best lists by this risk. The tensors keep the order of the search. If it
  /// is null, to_host() keeps that order, too.
  std::shared_ptr<const MinimumBayesRisk> risk = {};

  /// Returns `batch` results without tokens and with score 0.
  static Hypotheses empty(int64_t batch, at::Device device);

  /// Returns room for lists of `entries` hypotheses of up to `capacity` tokens each. The results
  /// are views of the first entries. Nothing is initialised. All tensors are views of one block of
  /// memory, so that clone() and to_host() copy them at once.
  static Hypotheses one_block(int64_t batch, int64_t entries, int64_t capacity, bool with_durations,
                              at::Device device);

  /// Makes results on the host from a ranked list for each row, of at most `entries` hypotheses. A
  /// row with an empty list gets the score -inf. `nan` ([B] bool, on the host) marks rows without a
  /// usable result. Rows without a finite score are marked, too. The result has n-best lists if
  /// `entries` is at least 2. Words are not copied: the caller sets `words`.
  static Hypotheses from_lists(const std::vector<std::vector<Hypothesis>>& rows,
                               bool with_durations, int64_t entries, const at::Tensor& nan);

  /// Returns a copy with `function` applied to each tensor that is defined.
  Hypotheses each(const std::function<at::Tensor(const at::Tensor&)>& function) const;

  /// Returns a copy on the same device. It is one operation if all tensors are views of one block.
  Hypotheses clone() const;

  /// Copies the results to the host. Synchronises with the current stream unless the tensors are on
  /// the host already. Throws WrongResult where a length is beyond the slots, or where `words`
  /// lacks a row or an entry.
  std::vector<Hypothesis> to_host() const;
};

/// A decoder's result breaks the contract above. what() names the row of the batch and the problem.
class WrongResult : public std::runtime_error {
 public:
  /// `row` is -1 where the problem concerns the whole batch.
  WrongResult(int64_t row, const std::string& problem)
      : std::runtime_error("the decoder's result is wrong: " +
                           (row < 0 ? "" : "row " + std::to_string(row) + ": ") + problem),
        row_(row) {}
  int64_t row() const { return row_; }

 private:
  int64_t row_;
};

}  // namespace rtfx
