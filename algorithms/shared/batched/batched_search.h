// Base classes of decoders that search a whole batch through Loops and take utterances in pieces.
// They hold the decoder's biasing, its LoopDriver and its streams. A decoder derives from
// GreedySearch or BeamSearch and writes its options, describe(), prepare(), search() and
// search_piece(). Its options have the members `boost` and `allowed`; those of a beam search also
// `lm`, `beam_size`, `nbest` and `score_norm`.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/gpu/loop_driver.h"
#include "algorithms/shared/biasing/biased_decoder.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/streams/piece_streams.h"

namespace rtfx {

template <class OptionStruct>
class BatchedSearch : public BiasedDecoder<OptionStruct> {
 public:
  using BiasedDecoder<OptionStruct>::BiasedDecoder;

  Hypotheses decode(const EncodedBatch& batch) override {
    reset_counts();
    select_bias(batch);
    return driver_.decode(batch);
  }

  Counters counters() const override { return driver_.counters(counts()); }

 protected:
  /// Searches projected frames. See LoopDriver::Search.
  virtual Hypotheses search(const EncodedBatch& batch, Loops& loops) = 0;

  /// Returns the counts of the last search, and sets them to 0 before the next one.
  virtual Counters counts() const { return {}; }
  virtual void reset_counts() {}

  /// Ends prepare(): tries the search and records it. `projected`: [1, 1, X], a frame as `project`
  /// returns it. Returns the form of `loop` that is available. See LoopDriver::prepare().
  std::string prepare_loops(const std::string& loop, const Limits& limits,
                            const at::Tensor& projected, const LoopDriver::Project& project) {
    projected_ = projected;
    return driver_.prepare(
        loop, this->describe().name, limits, projected, project,
        [this](const EncodedBatch& batch, Loops& loops) { return search(batch, loops); });
  }

  /// Loads the biases of the batch's rows, before the batch is searched.
  void select_bias(const EncodedBatch& batch) {
    try {
      if (this->bias_.select(batch)) driver_.record_anew();
    } catch (...) {
      driver_.record_anew();  // memory may have moved before the failure
      throw;
    }
  }

  LoopDriver driver_;
  at::Tensor projected_;
};

template <class OptionStruct>
class GreedySearch : public BatchedSearch<OptionStruct> {
 public:
  using BatchedSearch<OptionStruct>::BatchedSearch;

  /// The host drives the loops of streams, whatever the option "loop" says.
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    const auto search = [this](const EncodedBatch& batch, Loops& loops, RowState& state) {
      this->select_bias(batch);
      return search_piece(batch, loops, state);
    };
    return std::make_unique<PieceStreams>(
        greedy_in_pieces(this->takes_biases(), this->driver_.project(), this->projected_, search),
        limits);
  }

 protected:
  /// Searches the next frames of rows whose searches stopped at `state`, and replaces `state`. It
  /// is empty at the start of the utterances. See greedy_in_pieces().
  virtual Hypotheses search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) = 0;
};

template <class OptionStruct>
class BeamSearch : public BatchedSearch<OptionStruct> {
 public:
  using BatchedSearch<OptionStruct>::BatchedSearch;

  /// LibTorch's operators and the host's loops search streams, whatever the options "kernels" and
  /// "loop" say.
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    const auto search = [this](const EncodedBatch& batch, bool last, RowState& state,
                               HostReads& reads) {
      this->select_bias(batch);
      return search_piece(batch, last, state, reads);
    };
    const auto& options = this->options_;
    const BeamRanking ranking{options.beam_size, options.nbest, options.score_norm};
    return std::make_unique<PieceStreams>(
        beam_in_pieces(this->driver_.project(), this->projected_, ranking, search), limits);
  }

 protected:
  /// Searches the next frames of rows whose searches stopped at `state`, and replaces `state`. It
  /// is empty at the start of the utterances. `last`: no frames follow. See PieceSearch::search.
  virtual std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                             HostReads& reads) = 0;

  /// Loads the language model of the option "lm" and compiles the biasing options. A model without
  /// weight is loaded, so that a faulty file is an error, and then left out. Otherwise its options
  /// of pruning and blank would still act on boosted phrases.
  void prepare_fusion(const AcousticModel& model, const Limits& limits) {
    if (this->options_.lm) {
      std::shared_ptr<const NgramLm> loaded = load_lm(*this->options_.lm, model);
      if (!changes_nothing(*this->options_.lm)) lm_ = std::move(loaded);
    }
    this->prepare_bias(model, limits);
  }

  /// Returns the options of `lm_`, null without it.
  const LmOptions* lm_options() const { return lm_ ? &*this->options_.lm : nullptr; }

  std::shared_ptr<const NgramLm> lm_;  // null without a language model, and where it has no weight
};

}  // namespace rtfx
