#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kTracesToKeep = 1 << 16;  // fewer are not worth looking through

float cost_of(const GraphArc& arc, std::span<const float> word_costs) {
  if (arc.word == 0 || word_costs.empty()) return arc.cost;
  return arc.cost + word_costs[static_cast<size_t>(arc.word)];
}

}  // namespace

ViterbiSearch::ViterbiSearch(const GraphView& graph, float beam, int64_t max_active)
    : graph_(graph),
      beam_(beam),
      max_active_(static_cast<size_t>(max_active)),
      token_of_(static_cast<size_t>(graph.states), -1) {}

ViterbiState ViterbiSearch::start(std::span<const float> word_costs) {
  ViterbiState utterance;
  utterance.word_costs = word_costs;
  first_trace_ = last_first_trace_ = 0;
  candidates_.clear();
  reach(utterance, 0.0f, -1, -1);
  finish_frame(utterance, beam_);
  return utterance;
}

void ViterbiSearch::advance(ViterbiState& utterance, const float* lp, int64_t frames,
                            int64_t stride) {
  for (int64_t t = 0; t < frames && !utterance.tokens.empty(); ++t) {
    expand(utterance, lp + t * stride);
    if (utterance.traces.size() > std::max(2 * utterance.kept_traces, kTracesToKeep))
      drop_unused_traces(utterance);
  }
}

WfstPath ViterbiSearch::run(const float* lp, int64_t frames, int64_t stride,
                            std::span<const float> word_costs) {
  ViterbiState utterance = start(word_costs);
  advance(utterance, lp, frames, stride);
  counts_ = utterance.counts;
  return finish(utterance);
}

std::vector<WfstPath> ViterbiSearch::run_best(const float* lp, int64_t frames, int64_t stride,
                                              std::span<const float> word_costs, int64_t count,
                                              float lattice_beam) {
  WfstLattice lattice;
  lattice.beam = lattice_beam;
  const ViterbiState utterance = run_into(lattice, lp, frames, stride, word_costs);
  const WfstPath best = finish(utterance);
  if (!best.alive) return {};
  return best_paths(graph_, lattice, lattice_ends(utterance, best.reached_final), best, count);
}

WordLattice ViterbiSearch::run_lattice(const float* lp, int64_t frames, int64_t stride,
                                       std::span<const float> word_costs, float lattice_beam,
                                       double acoustic_scale) {
  WfstLattice lattice;
  lattice.beam = lattice_beam;
  const ViterbiState utterance = run_into(lattice, lp, frames, stride, word_costs);
  const WfstPath best = finish(utterance);
  if (!best.alive) return {};
  return word_lattice(graph_, lattice, lattice_ends(utterance, best.reached_final),
                      {lp, stride, acoustic_scale, word_costs, best.reached_final});
}

ViterbiState ViterbiSearch::run_into(WfstLattice& lattice, const float* lp, int64_t frames,
                                     int64_t stride, std::span<const float> word_costs) {
  lattice_ = &lattice;
  ViterbiState utterance = start(word_costs);
  advance(utterance, lp, frames, stride);
  lattice_ = nullptr;
  counts_ = utterance.counts;
  return utterance;
}

float ViterbiSearch::frontier_cutoff(const std::vector<Token>& tokens) {
  if (tokens.size() <= max_active_) return kInfinity;
  costs_.clear();
  for (const Token& token : tokens) costs_.push_back(token.cost);
  const auto nth = costs_.begin() + static_cast<ptrdiff_t>(max_active_);
  std::nth_element(costs_.begin(), nth, costs_.end());
  // The least cost is 0; tokens that have it expand even if more than max_active do.
  return std::max(*nth, std::numeric_limits<float>::min());
}

/// Moves from the tokens of one frame to those of the next.
void ViterbiSearch::expand(ViterbiState& u, const float* lp) {
  const std::vector<Token>& tokens = u.tokens;
  const float cutoff = frontier_cutoff(tokens);
  // `cut` only falls, and ends as best + beam. Candidates that passed it too early are dropped
  // below.
  float cut = kInfinity;
  candidates_.clear();
  const auto expand_token = [&, arcs = graph_.arcs, word_costs = u.word_costs, beam = beam_](
                                size_t i, const auto& visit) {
    const Token token = tokens[i];
    const auto s = static_cast<size_t>(token.state);
    const int32_t end = graph_.emitting_begin[s + 1];
    for (int32_t a = graph_.emitting_begin[s]; a < end; ++a) {
      const GraphArc& arc = arcs[a];
      const float cost = (token.cost + cost_of(arc, word_costs)) - lp[arc.column];
      if (cost < cut) {
        cut = std::min(cut, cost + beam);
        visit(Candidate{cost, a, static_cast<int32_t>(u.first_trace() + i)});
      }
    }
  };
  // The arcs of the best token come first, so that `cut` starts low.
  const auto cheaper = [](const Token& a, const Token& b) { return a.cost < b.cost; };
  const auto best = std::min_element(tokens.begin(), tokens.end(), cheaper);
  expand_token(static_cast<size_t>(best - tokens.begin()), [](const Candidate&) {});
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!(tokens[i].cost < cutoff)) continue;
    ++u.counts.expanded_tokens;
    const auto s = static_cast<size_t>(tokens[i].state);
    u.counts.scanned_arcs += graph_.emitting_begin[s + 1] - graph_.emitting_begin[s];
    expand_token(i, [&](const Candidate& c) { candidates_.push_back(c); });
  }

  last_first_trace_ = u.first_trace();
  u.tokens.clear();
  first_trace_ = u.traces.size();
  for (const Candidate& c : candidates_)
    if (c.cost < cut) reach(u, c.cost, c.arc, c.previous);
  finish_frame(u, cut);
}

/// Adds a path into the state that `arc` leads to; -1 stands for the start.
void ViterbiSearch::reach(ViterbiState& u, float cost, int32_t arc, int32_t previous) {
  const int32_t state = arc < 0 ? graph_.start : graph_.arcs[arc].next;
  int32_t& index = token_of_[static_cast<size_t>(state)];
  if (index < 0) {
    index = static_cast<int32_t>(u.tokens.size());
    u.tokens.push_back({state, cost, arc, previous});
    unfollowed_.push_back(index);
    return;
  }
  Token& token = u.tokens[static_cast<size_t>(index)];
  if (std::tie(cost, arc) >= std::tie(token.cost, token.arc)) return;
  if (cost < token.cost) unfollowed_.push_back(index);
  token = {state, cost, arc, previous};
}

/// Follows non-emitting arcs until nothing changes. The result is the same in any order: costs only
/// fall, and a float32 sum never falls when one of its summands rises.
void ViterbiSearch::follow_nonemitting(ViterbiState& u, float cut) {
  while (!unfollowed_.empty()) {
    const auto index = static_cast<size_t>(unfollowed_.back());
    unfollowed_.pop_back();
    const Token token = u.tokens[index];
    const auto s = static_cast<size_t>(token.state);
    for (int32_t a = graph_.nonemitting_begin[s]; a < graph_.nonemitting_begin[s + 1]; ++a) {
      const float cost = token.cost + cost_of(graph_.arcs[a], u.word_costs);
      if (cost < cut) reach(u, cost, a, static_cast<int32_t>(first_trace_ + index));
    }
  }
}

void ViterbiSearch::finish_frame(ViterbiState& u, float cut) {
  follow_nonemitting(u, cut);
  if (lattice_ != nullptr) add_to_lattice(u, cut);
  float least = kInfinity;
  for (const Token& token : u.tokens) least = std::min(least, token.cost);
  for (Token& token : u.tokens) {
    token.cost -= least;
    u.traces.push_back({token.arc, token.previous});
    token_of_[static_cast<size_t>(token.state)] = -1;
  }
  if (!u.tokens.empty()) u.offset += least;
  u.counts.kept_tokens += static_cast<int64_t>(u.tokens.size());
}

/// Adds the links into the frame's tokens, after their costs are final.
void ViterbiSearch::add_to_lattice(const ViterbiState& u, float cut) {
  const auto now = static_cast<int32_t>(lattice_->tokens());
  std::vector<WfstLattice::Link> links;
  const auto add = [&](float cost, int32_t arc, int32_t from) {
    const int32_t to = token_of_[static_cast<size_t>(graph_.arcs[arc].next)];
    const float slack = cost - u.tokens[static_cast<size_t>(to)].cost;
    if (slack <= lattice_->beam) links.push_back({now + to, from, arc, slack});
  };
  for (const Candidate& c : candidates_) {
    if (c.cost < cut)
      add(c.cost, c.arc, lattice_last_ + c.previous - static_cast<int32_t>(last_first_trace_));
  }
  for (size_t i = 0; i < u.tokens.size(); ++i) {
    const auto s = static_cast<size_t>(u.tokens[i].state);
    for (int32_t a = graph_.nonemitting_begin[s]; a < graph_.nonemitting_begin[s + 1]; ++a) {
      const float cost = u.tokens[i].cost + cost_of(graph_.arcs[a], u.word_costs);
      if (cost < cut) add(cost, a, now + static_cast<int32_t>(i));
    }
  }
  lattice_->add_tokens(static_cast<int64_t>(u.tokens.size()), links);
  lattice_last_ = now;
}

/// Returns the ends of paths in the order in which best_path() ranks them.
std::vector<WfstLattice::End> ViterbiSearch::lattice_ends(const ViterbiState& u, bool final) const {
  const auto cost = [&](const Token& token) {
    return final ? token.cost + graph_.final_cost[token.state] : token.cost;
  };
  float least = kInfinity;
  for (const Token& token : u.tokens) least = std::min(least, cost(token));
  std::vector<WfstLattice::End> ends;
  for (size_t i = 0; i < u.tokens.size(); ++i)
    ends.push_back({lattice_last_ + static_cast<int32_t>(i), cost(u.tokens[i]) - least});
  const auto state = [&](const WfstLattice::End& end) {
    return u.tokens[static_cast<size_t>(end.token - lattice_last_)].state;
  };
  std::sort(ends.begin(), ends.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.slack, state(a)) < std::pair(b.slack, state(b));
  });
  return ends;
}

/// Keeps the traces on paths to the tokens, in their order. The traces of the tokens themselves
/// stay the last ones, in the order of the tokens. A non-emitting arc can lead from a token to an
/// earlier one, so paths are followed one by one.
void ViterbiSearch::drop_unused_traces(ViterbiState& u) {
  constexpr int32_t kUnused = -1, kUsed = 0;
  new_index_.assign(u.traces.size(), kUnused);
  for (size_t last = u.first_trace(); last < u.traces.size(); ++last) {
    for (auto i = static_cast<int32_t>(last); i >= 0;
         i = u.traces[static_cast<size_t>(i)].previous) {
      int32_t& mark = new_index_[static_cast<size_t>(i)];
      if (mark == kUsed) break;
      mark = kUsed;
    }
  }
  int32_t kept = 0;
  for (int32_t& index : new_index_)
    if (index == kUsed) index = kept++;
  for (size_t i = 0; i < u.traces.size(); ++i) {
    if (new_index_[i] == kUnused) continue;
    auto [arc, previous] = u.traces[i];
    if (previous >= 0) previous = new_index_[static_cast<size_t>(previous)];
    u.traces[static_cast<size_t>(new_index_[i])] = {arc, previous};
  }
  u.traces.resize(static_cast<size_t>(kept));
  u.kept_traces = u.traces.size();
}

WfstPath ViterbiSearch::best_path(const ViterbiState& u, bool at_end) const {
  WfstPath path;
  path.alive = !u.tokens.empty();
  if (!path.alive) return path;
  // Final states come before others, then the least cost, then the lowest state.
  const auto rank = [&](const Token& token) {
    const float final_cost = at_end ? graph_.final_cost[token.state] : kInfinity;
    const bool ends = final_cost < kInfinity;
    return std::tuple(!ends, ends ? token.cost + final_cost : token.cost, token.state);
  };
  const auto best =
      std::min_element(u.tokens.begin(), u.tokens.end(),
                       [&](const Token& a, const Token& b) { return rank(a) < rank(b); });
  const auto [open, cost, state] = rank(*best);
  path.reached_final = !open;
  path.cost = u.offset + cost;
  std::vector<int32_t> arcs;
  auto i = static_cast<int32_t>(u.first_trace() + static_cast<size_t>(best - u.tokens.begin()));
  while (i >= 0) {
    const auto [arc, previous] = u.traces[static_cast<size_t>(i)];
    if (arc >= 0) arcs.push_back(arc);
    i = previous;
  }
  std::reverse(arcs.begin(), arcs.end());
  read_path(graph_, arcs, path);
  return path;
}

Description CtcWfstCpu::describe() const {
  return {"ctc_wfst_cpu",       Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob",
          /*streams=*/true,
          /*has_own_rule=*/true};
}

void CtcWfstCpu::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  graph_ = load_graph(options_, *model);
  boosting_ = WordBoosting(options_.boost, *graph_);
  model_ = with_blank_penalty(std::move(model), options_.blank_penalty);
  searches_.clear();
  for (int64_t i = 0; i < threads(); ++i)
    searches_.emplace_back(graph_->view(), static_cast<float>(options_.beam), options_.max_active);
}

int64_t CtcWfstCpu::threads() const {
  const int64_t all = at::get_num_threads();
  return options_.threads == 0 ? all : std::min(all, options_.threads);
}

Hypotheses CtcWfstCpu::decode(const EncodedBatch& batch) {
  reads_.reset();
  HostEmissions emissions;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    emissions = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  std::vector<std::vector<WfstPath>> lists;
  std::vector<WfstPath> paths;
  if (options_.nbest > 1) {
    lists = search_best(emissions.lp, batch.lengths_host, batch.biases);
    WfstPath none;
    none.alive = false;
    for (const auto& list : lists) paths.push_back(list.empty() ? none : list.front());
  } else {
    paths = search(emissions.lp, batch.lengths_host, batch.biases);
  }
  counters_["host_reads"] = reads_.count();
  counters_["not_final"] = count_not_final(paths);
  const ScopedRange trace_back(RangeName::decode_trace_back);
  return wfst_hypotheses(paths, emissions.nan, word_text(*graph_), lists);
}

/// Calls search() for each row on the decoder's threads, and returns the counts of the rows.
std::vector<ViterbiCounts> CtcWfstCpu::search_rows(const at::Tensor& lp,
                                                   const std::vector<int64_t>& lengths,
                                                   const RowBiases& biases,
                                                   const RowSearch& search) {
  RTFX_CHECK(biases.empty() || biases.size() == lengths.size(), "biases of some rows alone");
  const auto* emissions = data_of<float>(lp);
  const int64_t row = lp.size(1) * lp.size(2);
  std::vector<ViterbiCounts> counts(lengths.size());
  for_each_utterance(lengths, searches_.size(), [&](size_t thread, size_t b) {
    std::vector<float> own;
    const auto costs = boosting_.of_row(biases.empty() ? nullptr : biases[b].get(), own);
    search(searches_[thread], b, emissions + static_cast<int64_t>(b) * row, costs);
    counts[b] = searches_[thread].counts();
  });
  return counts;
}

void CtcWfstCpu::count(const std::vector<ViterbiCounts>& rows) {
  counters_.clear();
  for (const ViterbiCounts& c : rows) {
    counters_["expanded_tokens"] += c.expanded_tokens;
    counters_["scanned_arcs"] += c.scanned_arcs;
    counters_["kept_tokens"] += c.kept_tokens;
  }
}

std::vector<WfstPath> CtcWfstCpu::search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                                         const RowBiases& biases) {
  std::vector<WfstPath> paths(lengths.size());
  count(search_rows(lp, lengths, biases,
                    [&](ViterbiSearch& search, size_t b, const float* row, auto word_costs) {
                      paths[b] = search.run(row, lengths[b], lp.size(2), word_costs);
                    }));
  return paths;
}

std::vector<std::vector<WfstPath>> CtcWfstCpu::search_best(const at::Tensor& lp,
                                                           const std::vector<int64_t>& lengths,
                                                           const RowBiases& biases) {
  std::vector<std::vector<WfstPath>> lists(lengths.size());
  count(search_rows(
      lp, lengths, biases, [&](ViterbiSearch& search, size_t b, const float* row, auto word_costs) {
        lists[b] = search.run_best(row, lengths[b], lp.size(2), word_costs, options_.nbest,
                                   static_cast<float>(options_.lattice_beam));
      }));
  return lists;
}

std::vector<WordLattice> CtcWfstCpu::lattices(const EncodedBatch& batch) {
  reads_.reset();
  const auto [lp, nan] = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  const bool* damaged = data_of<bool>(nan);
  const int64_t columns = lp.size(2);
  std::vector<WordLattice> found(batch.lengths_host.size());
  search_rows(lp, batch.lengths_host, batch.biases,
              [&](ViterbiSearch& search, size_t b, const float* row, auto word_costs) {
                if (damaged[b]) return;
                found[b] = search.run_lattice(row, batch.lengths_host[b], columns, word_costs,
                                              static_cast<float>(options_.lattice_beam),
                                              options_.acoustic_scale);
              });
  return found;
}

std::unique_ptr<Streams> CtcWfstCpu::streams(const StreamLimits&) {
  StreamLists lists;
  if (options_.nbest > 1) {
    lists.search = [this](const at::Tensor& lp, const std::shared_ptr<const CompiledBias>& bias) {
      return search_best(lp.unsqueeze(0), {lp.size(0)}, {bias}).front();
    };
    lists.no_frames = at::empty({0, graph_->view().columns}, at::kFloat);
  }
  return std::make_unique<WfstStreams>(
      std::make_unique<CpuStreams>(*graph_, static_cast<float>(options_.beam), options_.max_active,
                                   boosting_.costs(), threads()),
      [this](const at::Tensor& frames) {
        return scaled_log_probs(*model_, frames, options_.acoustic_scale).cpu();
      },
      word_text(*graph_), boosting_, std::move(lists));
}

CpuStreams::CpuStreams(WfstGraph graph, float beam, int64_t max_active,
                       std::vector<float> word_costs, int64_t threads)
    : graph_(std::move(graph)), word_costs_(std::move(word_costs)) {
  for (int64_t i = 0; i < threads; ++i) searches_.emplace_back(graph_.view(), beam, max_active);
}

int64_t CpuStreams::open(std::optional<std::vector<float>> word_costs) {
  Stream stream{word_costs ? std::move(*word_costs) : word_costs_, {}};
  // The word costs keep their addresses when the vector is moved.
  stream.state = searches_.front().start(stream.word_costs);
  return streams_.add(std::move(stream));
}

void CpuStreams::set_word_costs(int64_t number, std::optional<std::vector<float>> word_costs) {
  Stream& stream = streams_.at(number);
  stream.word_costs = word_costs ? std::move(*word_costs) : word_costs_;
  if (stream.has_frames) {
    stream.state.word_costs = stream.word_costs;
  } else {
    stream.state = searches_.front().start(stream.word_costs);
  }
}

void CpuStreams::advance(std::span<const WfstPiece> pieces) {
  const std::vector<Stream*> streams = streams_.find_all(piece_streams(pieces));
  for_each_utterance(piece_frames(pieces, graph_.view().columns, at::kCPU), searches_.size(),
                     [&](size_t thread, size_t i) {
                       const at::Tensor& lp = pieces[i].lp;
                       streams[i]->has_frames |= lp.size(0) > 0;
                       searches_[thread].advance(streams[i]->state, data_of<float>(lp), lp.size(0),
                                                 lp.size(1));
                     });
}

WfstPath CpuStreams::partial(int64_t stream) {
  return searches_.front().partial(streams_.at(stream).state);
}

WfstPath CpuStreams::finish(int64_t stream) {
  return searches_.front().finish(streams_.at(stream).state);
}

namespace {

const RegisterSkipping<CtcWfstCpu> registered{"ctc_wfst_cpu",
                                              "CTC beam search (Viterbi) over a decoding graph of "
                                              "a lexicon and a word language model, on the CPU"};

}  // namespace

}  // namespace rtfx
