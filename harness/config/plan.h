// Makes the list of cases that a configuration runs. It is a pure function, and gives the same list
// with and without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

// Divides utterances into batches, by pure functions of their lengths.

/// Returns batches of indices into `seconds`. `sort` is "duration_desc", "duration_asc", "none" (as
/// given) or "shuffle" (by seed); equal lengths keep their order. If the rule is in seconds, a
/// batch grows while its count times its longest utterance stays within the limit. An utterance
/// above the limit has a batch of its own.
std::vector<std::vector<size_t>> make_batches(const std::vector<double>& seconds,
                                              const std::string& sort, const BatchRule& rule,
                                              int64_t seed);

/// Divides the same order of utterances at other places: the first batch is half as long, and the
/// others are as long as their predecessors. Batches of one utterance do not change.
std::vector<std::vector<size_t>> shifted_batches(const std::vector<std::vector<size_t>>& batches);

/// The order in which `count` decoders run in a round. Every second round reverses the one before
/// it (A B B A), so that a steady trend of the machine cancels. In `count` rounds, or twice as many
/// where it is odd, each decoder has each place and follows each other one equally often. The
/// design is that of Williams, Experimental designs balanced for the estimation of residual effects
/// of treatments, 1949.
std::vector<size_t> round_order(size_t count, int64_t round, int64_t seed);

/// The kinds of a model: "ctc", "rnnt", "multiblank", "tdt". A hybrid model has two.
using ModelKinds = std::vector<std::string>;

/// Returns whether the decoder is for the model: its `models` names the model's id or one of its
/// kinds, or is empty.
bool is_wanted(const DecoderSpec& decoder, const ModelSource& model, const ModelKinds& kinds);

struct PlannedDecoder {
  size_t spec = 0;        // index into Config::decoders
  std::string case_name;  // model/dataset/decoder/b16/fp32
  /// Id of the baseline whose results these are compared with; its own id if it is that; empty if
  /// there is none.
  std::string compared_to;
};

/// The cases that share the outputs of the encoder.
struct CaseGroup {
  size_t model = 0, dataset = 0, batch = 0;  // indices into Config
  BatchRule rule;  // rule of `batch`; for "max", it has the size once that is found
  std::string dtype;
  std::vector<PlannedDecoder> decoders;
};

/// Makes the plan. kinds[i] belongs to config.models[i]. Throws UserError for a decoder that a
/// model cannot serve, a restriction that names no model, a model without any decoder, and a
/// dataset for which there are no batches. Errors name the override that they come from.
std::vector<CaseGroup> make_plan(const Config& config, const std::vector<ModelKinds>& kinds);

/// Returns whether group `i` of a plan is the first of its model, dataset and dtype. Commands whose
/// results do not depend on the size of batches measure only these groups.
bool is_first_batch_size(const std::vector<CaseGroup>& plan, size_t i);

/// On a CPU, throws UserError for a dtype, an encoder or a decoder that needs a GPU. On a GPU,
/// throws UserError for fp64. A run records these as failures, and measures the other cases.
void require_fitting_device(const Config& config);

}  // namespace rtfx
