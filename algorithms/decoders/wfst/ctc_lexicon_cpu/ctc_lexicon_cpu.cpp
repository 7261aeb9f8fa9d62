#include "algorithms/decoders/wfst/ctc_lexicon_cpu/ctc_lexicon_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/wfst/grammar.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

WordLm::WordLm(const TransducerArcs& grammar, int32_t backoff)
    : start_(grammar.start),
      begin_(static_cast<size_t>(grammar.states) + 1),
      backoff_(static_cast<size_t>(grammar.states), Step{-1, 0}),
      final_cost_(static_cast<size_t>(grammar.states), std::numeric_limits<float>::infinity()) {
  std::vector<TransducerArcs::Arc> words;
  for (const auto& arc : grammar.arcs) {
    const auto from = static_cast<size_t>(arc.from);
    if (arc.input == backoff) {
      backoff_[from] = {arc.to, arc.cost};
    } else {
      words.push_back(arc);
      ++begin_[from + 1];
    }
  }
  for (size_t s = 1; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) {
    return std::tie(a.from, a.input) < std::tie(b.from, b.input);
  });
  for (const auto& arc : words) arcs_.push_back({arc.input, arc.to, arc.cost});
  for (const auto& [state, cost] : grammar.finals) final_cost_[static_cast<size_t>(state)] = cost;
  while (backoff_[static_cast<size_t>(empty_)].state >= 0)
    empty_ = backoff_[static_cast<size_t>(empty_)].state;
}

std::optional<WordLm::Step> WordLm::next(int32_t state, int32_t word) const {
  float cost = 0;
  while (state >= 0) {
    const auto s = static_cast<size_t>(state);
    const auto end = arcs_.begin() + begin_[s + 1];
    const auto found = std::lower_bound(arcs_.begin() + begin_[s], end, word,
                                        [](const Arc& arc, int32_t w) { return arc.word < w; });
    if (found != end && found->word == word) return Step{found->to, cost + found->cost};
    cost += backoff_[s].cost;
    state = backoff_[s].state;
  }
  return std::nullopt;
}

float WordLm::final_cost(int32_t state) const {
  float cost = 0;
  while (state >= 0) {
    const auto s = static_cast<size_t>(state);
    if (final_cost_[s] < std::numeric_limits<float>::infinity()) return cost + final_cost_[s];
    cost += backoff_[s].cost;
    state = backoff_[s].state;
  }
  return std::numeric_limits<float>::infinity();
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

LexiconTree::LexiconTree(const Lexicon& lexicon, const WordLm& lm) : nodes_(1) {
  int32_t word_id = 0;
  for (const auto& [word, spellings] : lexicon) {
    ++word_id;
    for (const auto& spelling : spellings) add(word_id, spelling, lexicon.cost(word, spelling), lm);
  }
}

void LexiconTree::add(int32_t word, const std::vector<int32_t>& spelling, float own,
                      const WordLm& lm) {
  const auto step = lm.next(lm.empty(), word);
  const float cost = step ? step->cost + own : kInfinity;
  size_t at = 0;
  for (const int32_t token : spelling) {
    auto& children = nodes_[at].children;
    auto child = std::lower_bound(children.begin(), children.end(), std::pair(token, 0));
    if (child == children.end() || child->first != token) {
      child = children.insert(child, {token, static_cast<int32_t>(nodes_.size())});
      at = nodes_.size();
      nodes_.push_back({{}, {}, kInfinity});
    } else {
      at = static_cast<size_t>(child->second);
    }
    nodes_[at].look_ahead = std::min(nodes_[at].look_ahead, cost);
  }
  nodes_[at].words.emplace_back(word, own);
}

WfstPath PrefixSearch::run(const float* lp, int64_t frames, int32_t columns) {
  traces_.clear();
  kept_ = {{lm_.start(), 0, -1, 0.0f, -1}};
  for (int64_t t = 0; t < frames && !kept_.empty(); ++t, lp += columns) {
    best_tokens(lp, columns - 1);
    next_.clear();
    for (const Hypothesis& h : kept_) expand(h, lp, columns - 1);
    prune();
    add_traces(static_cast<int32_t>(t));
  }

  // Texts that end with a whole word come before those that end within one, then the least cost.
  WfstPath path;
  path.alive = !kept_.empty();
  if (!path.alive) return path;
  const auto rank = [&](const Hypothesis& h) {
    const float final_cost = h.node == 0 ? lm_.final_cost(h.history) : kInfinity;
    const bool ends = final_cost < kInfinity;
    return std::tuple(!ends, ends ? h.cost + final_cost : h.cost - tree_.node(h.node).look_ahead,
                      h.history, h.node, h.last);
  };
  const auto best =
      std::min_element(kept_.begin(), kept_.end(),
                       [&](const Hypothesis& a, const Hypothesis& b) { return rank(a) < rank(b); });
  path.reached_final = !std::get<0>(rank(*best));
  path.cost = std::get<1>(rank(*best));
  for (int32_t i = best->trace; i >= 0; i = traces_[static_cast<size_t>(i)].previous) {
    const Trace& trace = traces_[static_cast<size_t>(i)];
    path.tokens.push_back(trace.token);
    path.token_frames.push_back(trace.frame);
    if (trace.word == 0) continue;
    path.words.push_back(trace.word);
    path.word_frames.push_back(trace.frame);
  }
  for (auto* list : {&path.tokens, &path.token_frames, &path.words, &path.word_frames})
    std::reverse(list->begin(), list->end());
  return path;
}

/// Marks the tokens that are tried at a frame. Among equal ones the lower id comes first.
void PrefixSearch::best_tokens(const float* lp, int32_t blank) {
  const auto count = std::min(limits_.beam_tokens, int64_t{blank});
  tokens_.resize(static_cast<size_t>(blank));
  std::iota(tokens_.begin(), tokens_.end(), 0);
  const auto better = [lp](int32_t a, int32_t b) {
    const float x = std::isnan(lp[a]) ? -kInfinity : lp[a];
    const float y = std::isnan(lp[b]) ? -kInfinity : lp[b];
    return x > y || (x == y && a < b);
  };
  std::nth_element(tokens_.begin(), tokens_.begin() + (count - 1), tokens_.end(), better);
  tried_.assign(static_cast<size_t>(blank), false);
  for (int64_t i = 0; i < count; ++i)
    tried_[static_cast<size_t>(tokens_[static_cast<size_t>(i)])] = true;
}

void PrefixSearch::expand(const Hypothesis& h, const float* lp, int32_t blank) {
  next_.push_back({h.history, h.node, -1, h.cost - lp[blank], h.trace});
  if (h.last >= 0) next_.push_back({h.history, h.node, h.last, h.cost - lp[h.last], h.trace});
  const LexiconTree::Node& node = tree_.node(h.node);
  for (const auto& [token, child] : node.children) {
    if (token == h.last || !tried_[static_cast<size_t>(token)]) continue;
    const LexiconTree::Node& to = tree_.node(child);
    const float cost = h.cost - lp[token] - node.look_ahead;
    if (!(cost < kInfinity)) continue;
    if (!to.children.empty())
      next_.push_back({h.history, child, token, cost + to.look_ahead, h.trace, token, 0});
    for (const auto& [word, own] : to.words) {
      if (const auto step = lm_.next(h.history, word))
        next_.push_back({step->state, 0, token, cost + step->cost + own, h.trace, token, word});
    }
  }
}

/// Keeps the best of equal hypotheses. Of these it keeps those within the beam, at most beam_size.
void PrefixSearch::prune() {
  const auto position = [](const Hypothesis& h) { return std::tie(h.history, h.node, h.last); };
  float best = kInfinity;
  for (const Hypothesis& h : next_)
    if (h.cost < best) best = h.cost;
  const float cut = best + limits_.beam;
  std::erase_if(next_, [cut](const Hypothesis& h) { return !(h.cost < cut); });
  std::sort(next_.begin(), next_.end(), [&](const Hypothesis& a, const Hypothesis& b) {
    return std::tuple_cat(position(a), std::tie(a.cost, a.trace, a.word)) <
           std::tuple_cat(position(b), std::tie(b.cost, b.trace, b.word));
  });
  const auto end = std::unique(
      next_.begin(), next_.end(),
      [&](const Hypothesis& a, const Hypothesis& b) { return position(a) == position(b); });
  next_.erase(end, next_.end());
  if (const auto size = static_cast<size_t>(limits_.beam_size); next_.size() > size) {
    std::nth_element(next_.begin(), next_.begin() + static_cast<ptrdiff_t>(size), next_.end(),
                     [&](const Hypothesis& a, const Hypothesis& b) {
                       return std::tuple_cat(std::tie(a.cost), position(a)) <
                              std::tuple_cat(std::tie(b.cost), position(b));
                     });
    next_.resize(size);
  }
  kept_.swap(next_);
}

void PrefixSearch::add_traces(int32_t frame) {
  for (Hypothesis& h : kept_) {
    if (h.token < 0) continue;
    traces_.push_back({h.trace, h.token, h.word, frame});
    h.trace = static_cast<int32_t>(traces_.size()) - 1;
    h.token = -1;
    h.word = 0;
  }
}

namespace {

using Options = CtcLexiconCpu::Options;

}  // namespace

const OptionTable<CtcLexiconCpuOptions>& CtcLexiconCpuOptions::table() {
  using O = CtcLexiconCpuOptions;
  static const OptionTable<O> table{{
      option("lexicon", &O::lexicon,
             "Text file with a word and its tokens in each line, plain or gzip."),
      option("lm", &O::lm, "ARPA file of an n-gram language model over words, plain or gzip."),
      option("words", &O::words, "Words and phrases that are added to those of the lexicon.",
             added_word_options()),
      option("acoustic_scale", &O::acoustic_scale,
             "Factor of the acoustic log-probabilities. The default, 1 / 0.55, gives the language "
             "model a weight of 0.55.",
             1e-3, 1e3),
      option("beam", &O::beam,
             "Beam width: at each frame, hypotheses are dropped whose cost exceeds the least cost "
             "by this value or more. Costs include `acoustic_scale`.",
             1e-3, 1e9),
      option("beam_size", &O::beam_size, "Largest number of hypotheses that are kept at a frame.",
             1),
      option("beam_tokens", &O::beam_tokens,
             "Number of tokens, the likeliest ones, that are tried at a frame.", 1),
      blank_penalty_option(&O::blank_penalty),
      option("threads", &O::threads,
             "Largest number of CPU threads that search. 0: all threads of the program.", 0),
  }};
  return table;
}

namespace {
const Register<CtcLexiconCpu> registered{"ctc_lexicon_cpu",
                                         "CTC prefix beam search with a lexicon and a word "
                                         "language model on the CPU, without a decoding graph"};
}

Description CtcLexiconCpu::describe() const {
  return {"ctc_lexicon_cpu",    Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob",
          /*streams=*/false,
          /*has_own_rule=*/true};
}

void CtcLexiconCpu::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  if (!model->tokenizer) {
    throw UserError(options_.lexicon.string(), "cannot be read without the model's tokenizer",
                    "use a checkpoint that holds one");
  }
  const GraphSources sources{options_.lexicon, options_.lm};
  int64_t dropped = 0;
  const Lexicon lexicon = common_lexicon(*model->tokenizer, sources, &dropped);
  phrases_.clear();
  if (options_.words) phrases_ = spelled_phrases(*options_.words, *model->tokenizer);
  lexicon_words_ = static_cast<int32_t>(lexicon.size());
  const int32_t backoff = lexicon_words_ + static_cast<int32_t>(phrases_.size()) + 1;
  TransducerArcs grammar = grammar_transducer(options_.lm, word_labels(lexicon), backoff, &dropped);
  // An added phrase is a word that the language model has only among its 1-grams.
  const int32_t empty = WordLm(grammar, backoff).empty();
  for (int32_t i = 0; i < std::ssize(phrases_); ++i) {
    const int32_t word = lexicon_words_ + 1 + i;
    grammar.add(empty, empty, word, word, phrases_[static_cast<size_t>(i)].cost);
  }
  searches_.clear();
  lm_.emplace(grammar, backoff);
  tree_.emplace(lexicon, *lm_);
  words_.clear();
  for (const auto& [word, spellings] : lexicon) words_.push_back(word);
  first_words_.clear();
  for (int32_t i = 0; i < std::ssize(phrases_); ++i) {
    const SpelledPhrase& phrase = phrases_[static_cast<size_t>(i)];
    first_words_.push_back(static_cast<int32_t>(words_.size()) + 1);
    tree_->add(lexicon_words_ + 1 + i, phrase.tokens(), 0, *lm_);
    for (const SpelledPhrase::Word& word : phrase.words) words_.push_back(word.text);
  }
  model_ = with_blank_penalty(std::move(model), options_.blank_penalty);
  const PrefixSearchLimits beam{static_cast<float>(options_.beam), options_.beam_size,
                                options_.beam_tokens};
  const int64_t all = at::get_num_threads();
  const int64_t threads = options_.threads == 0 ? all : std::min(all, options_.threads);
  for (int64_t i = 0; i < threads; ++i) searches_.emplace_back(*tree_, *lm_, beam);
}

void CtcLexiconCpu::divide_phrases(WfstPath& path) const {
  if (phrases_.empty()) return;
  std::vector<int32_t> words, frames;
  for (size_t i = 0; i < path.words.size(); ++i) {
    const int32_t phrase = path.words[i] - lexicon_words_ - 1;
    if (phrase < 0) {
      words.push_back(path.words[i]);
      frames.push_back(path.word_frames[i]);
      continue;
    }
    int32_t next = first_words_[static_cast<size_t>(phrase)];
    const SpelledPhrase& spelled = phrases_[static_cast<size_t>(phrase)];
    const auto last = std::ranges::lower_bound(path.token_frames, path.word_frames[i]);
    auto token = last - static_cast<ptrdiff_t>(spelled.tokens().size()) + 1;
    for (const SpelledPhrase::Word& word : spelled.words) {
      token += static_cast<ptrdiff_t>(word.tokens.size());
      words.push_back(next++);
      frames.push_back(*(token - 1));
    }
  }
  path.words = std::move(words);
  path.word_frames = std::move(frames);
}

Hypotheses CtcLexiconCpu::decode(const EncodedBatch& batch) {
  reads_.reset();
  HostEmissions emissions;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    emissions = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  const float* lp = data_of<float>(emissions.lp);
  const int64_t columns = emissions.lp.size(2), row = emissions.lp.size(1) * columns;
  std::vector<WfstPath> paths(batch.lengths_host.size());
  for_each_utterance(batch.lengths_host, searches_.size(), [&](size_t thread, size_t b) {
    paths[b] = searches_[thread].run(lp + static_cast<int64_t>(b) * row, batch.lengths_host[b],
                                     static_cast<int32_t>(columns));
    divide_phrases(paths[b]);
  });
  not_final_ = count_not_final(paths);
  const ScopedRange trace_back(RangeName::decode_trace_back);
  return wfst_hypotheses(paths, emissions.nan,
                         [this](int32_t word) { return words_[static_cast<size_t>(word) - 1]; });
}

}  // namespace rtfx
