// From a configuration to the cases that will run: a pure function, the same with or without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

// Which utterances go together: pure functions of their lengths.

/// Indices into `seconds`, in batches. sort: "duration_desc", "duration_asc", "none" (as given) or
/// "shuffle" (by seed); equal lengths keep their order. By seconds, a batch grows while its count
/// times its longest utterance stays within the limit; an utterance above the limit goes alone.
std::vector<std::vector<size_t>> make_batches(const std::vector<double>& seconds,
                                              const std::string& sort, const BatchRule& rule,
                                              int64_t seed);

/// Cuts the same order of utterances elsewhere: the first batch is half as long, and the others are
/// as long as their predecessors. Batches of one utterance stay as they are.
std::vector<std::vector<size_t>> shifted_batches(const std::vector<std::vector<size_t>>& batches);

/// The order in which `count` decoders run in a round. Every second round reverses the one before
/// it (A B B A), so that a steady drift cancels. In `count` rounds, or twice as many where it is
/// odd, each decoder has each place and follows each other one equally often. The design is that of
/// Williams, Experimental designs balanced for the estimation of residual effects of treatments,
/// 1949.
std::vector<size_t> round_order(size_t count, int64_t round, int64_t seed);

/// The kinds of a model: "ctc", "rnnt", "multiblank", "tdt"; a hybrid has two.
using ModelKinds = std::vector<std::string>;

/// Whether the decoder's `models` names the model by its id or by one of its kinds, or names none.
bool is_wanted(const DecoderSpec& decoder, const ModelSource& model, const ModelKinds& kinds);

struct PlannedDecoder {
  size_t spec = 0;          // index into Config::decoders
  std::string case_name;    // model/dataset/decoder/b16/fp32
  std::string compared_to;  // id of the decoder whose results are the reference; its own for that
                            // one; empty when there is none
};

/// Everything that shares encoder outputs.
struct CaseGroup {
  size_t model = 0, dataset = 0, batch = 0;  // indices into Config
  BatchRule rule;                            // that of `batch`; of "max" with the size once found
  std::string dtype;
  std::vector<PlannedDecoder> decoders;
};

/// kinds[i] belongs to config.models[i]. Throws UserError for a decoder that a model cannot serve,
/// a restriction that names no model, a model without any decoder, and a dataset for none of the
/// batches. The errors name the override that they come from.
std::vector<CaseGroup> make_plan(const Config& config, const std::vector<ModelKinds>& kinds);

/// Whether group `i` of a plan is the first of its model, dataset and dtype. Commands whose results
/// do not depend on the size of the batches measure these groups alone.
bool is_first_of_sizes(const std::vector<CaseGroup>& plan, size_t i);

/// Throws UserError for the dtypes, the encoder and the decoders that need a GPU, if the
/// configuration is for a CPU, and for fp64, if it is for a GPU. A run measures the other cases,
/// and records a failure of these.
void require_fitting_device(const Config& config);

}  // namespace rtfx
