#include "algorithms/shared/confidence/confidence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "algorithms/shared/transducer/transducer.h"
#include "base/error.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

bool is_shannon(double alpha) { return alpha == 1; }

/// Returns H of logprobs [..., V]. The logarithm -inf counts as a probability of 0.
at::Tensor entropy_of(const at::Tensor& logprobs, const ConfidenceOptions& options) {
  const double alpha = options.alpha;
  if (options.entropy == "gibbs" || is_shannon(alpha)) {
    const at::Tensor terms = (logprobs * alpha).exp() * logprobs.clamp_min(-1e30);
    return terms.sum(-1).neg();
  }
  return ((logprobs * alpha).exp().sum(-1) - 1) / (1 - alpha);
}

double largest_entropy(double labels, const ConfidenceOptions& options) {
  const double alpha = options.alpha;
  if (is_shannon(alpha)) return std::log(labels);
  if (options.entropy == "gibbs") return std::pow(labels, 1 - alpha) * std::log(labels);
  return (std::pow(labels, 1 - alpha) - 1) / (1 - alpha);
}

}  // namespace

const OptionTable<ConfidenceOptions>& confidence_options() {
  using O = ConfidenceOptions;
  static const OptionTable<O> table{{
      option("method", &O::method,
             "Source of the confidence. `entropy`: the entropy of the distribution over labels. "
             "`max_prob`: its largest probability.",
             {"entropy", "max_prob"}),
      option("entropy", &O::entropy,
             "Kind of entropy for the method `entropy`. If `alpha` is 1, both kinds are Shannon's "
             "entropy.",
             {"gibbs", "tsallis"}),
      option("norm", &O::norm,
             "Rule that maps an entropy to a confidence from 0 to 1. `exp`: exponential. `lin`: "
             "linear.",
             {"exp", "lin"}),
      option("alpha", &O::alpha, "Exponent to which the probabilities of labels are raised.", 0.01,
             1.0),
      option("aggregation", &O::aggregation,
             "Rule that combines confidences: frames to a token, tokens to a word, and words to "
             "the utterance. `prod`: their product.",
             {"mean", "min", "max", "prod"}),
      option("exclude_blank", &O::exclude_blank,
             "Leave frames of blank out of the confidence of a token. `false`: the frames of blank "
             "after a token count for its confidence."),
  }};
  return table;
}

at::Tensor confidence_of(const at::Tensor& logprobs, const ConfidenceOptions& options) {
  const auto labels = static_cast<double>(logprobs.size(-1));
  if (options.method == "max_prob") {
    const double most = std::pow(labels, options.alpha);
    return (((logprobs.amax(-1) * options.alpha).exp() * most - 1) / (most - 1)).clamp(0, 1);
  }
  const at::Tensor entropy = entropy_of(logprobs, options);
  const double largest = largest_entropy(labels, options);
  if (options.norm == "lin") return (1 - entropy / largest).clamp(0, 1);
  const double scale = options.entropy == "gibbs" ? options.alpha : 1;
  const double least = std::exp(-scale * largest);
  return (((entropy * -scale).exp() - least) / (1 - least)).clamp(0, 1);
}

double aggregate(std::span<const double> values, const std::string& aggregation) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (aggregation == "min") return std::ranges::min(values);
  if (aggregation == "max") return std::ranges::max(values);
  if (aggregation == "prod")
    return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

namespace {

/// Returns the number of distributions that take about kChunkBytes, intermediate results included.
int64_t places_at_once(int64_t labels) {
  return std::max<int64_t>(1, Confidence::kChunkBytes / (4 * labels * int64_t{sizeof(float)}));
}

template <class Value>
std::vector<Value> on_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, c10::CppTypeToScalarType<Value>::value).contiguous();
  return {data_of<Value>(host), data_of<Value>(host) + host.numel()};
}

template <class Item>
at::Tensor column(const std::vector<Item>& items, int64_t Item::*member, at::Device device) {
  std::vector<int64_t> values;
  values.reserve(items.size());
  for (const Item& item : items) values.push_back(item.*member);
  return at::tensor(values, at::kLong).to(device);
}

/// Returns the predictions behind every number of tokens, [rows, longest + 1, H]. `before` is the
/// prediction behind the tokens before the rows' own. It becomes the prediction behind the last
/// token of the longest row.
at::Tensor predictions(const Transducer& transducer,
                       const std::vector<const Hypothesis*>& hypotheses,
                       Transducer::Prediction& before) {
  size_t longest = 0;
  for (const Hypothesis* h : hypotheses) longest = std::max(longest, h->tokens.size());
  const auto rows = static_cast<int64_t>(hypotheses.size());
  at::Tensor tokens =
      at::full({rows, static_cast<int64_t>(longest)}, transducer.blank(), at::kLong);
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int32_t>& own = hypotheses[static_cast<size_t>(r)]->tokens;
    std::copy(own.begin(), own.end(),
              tokens.mutable_data_ptr<int64_t>() + r * static_cast<int64_t>(longest));
  }
  tokens = tokens.to(transducer.device());
  std::vector<at::Tensor> all = {before.output};
  for (int64_t u = 0; u < tokens.size(1); ++u) {
    before = transducer.predict(tokens.select(1, u).contiguous(), before.state);
    all.push_back(before.output);
  }
  return at::stack(all, 1);
}

/// Returns the frame of the token after `token`, or the row's end.
int64_t next_frame(const Hypothesis& h, size_t token, int64_t length) {
  return token + 1 < h.frames.size() ? h.frames[token + 1] : length;
}

/// Returns the first frame whose blank may count for a token.
int64_t first_blank(const Hypothesis& h, size_t token) {
  return h.frames[token] + (h.durations.empty() ? 1 : h.durations[token]);
}

}  // namespace

Confidence::Confidence(std::shared_ptr<const AcousticModel> model, Head head,
                       std::optional<ConfidenceOptions> options)
    : model_(std::move(model)), head_(head), options_(std::move(options)) {
  RTFX_CHECK(head_ == Head::ctc ? model_->ctc_head.has_value()
                                : head_ == Head::transducer && model_->joint.has_value(),
             "confidence of a head that the model lacks");
}

std::vector<TokenEvidence> Confidence::operator()(
    const EncodedBatch& batch, const std::vector<int64_t>& rows,
    const std::vector<const Hypothesis*>& hypotheses) const {
  RTFX_CHECK(rows.size() == hypotheses.size(), "a row for each hypothesis");
  if (head_ == Head::transducer) {
    if (!options_) return std::vector<TokenEvidence>(rows.size());
    const Transducer transducer(model_, {});
    auto start = transducer.start(static_cast<int64_t>(rows.size()));
    return joint_evidence(batch, rows, hypotheses, predictions(transducer, hypotheses, start));
  }
  std::vector<TokenEvidence> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t length = batch.lengths_host[static_cast<size_t>(rows[i])];
    all.push_back(emission_evidence(batch.frames[rows[i]].narrow(0, 0, length), *hypotheses[i]));
  }
  return all;
}

TokenEvidence Confidence::piece_evidence(const at::Tensor& frames, const Hypothesis& piece,
                                         Before& before) const {
  if (head_ == Head::ctc) return emission_evidence(frames, piece);
  if (!options_) return {};
  const Transducer transducer(model_, {});
  if (!before) before = transducer.start(1);
  const at::Tensor predicted = predictions(transducer, {&piece}, *before);
  EncodedBatch batch;
  batch.frames = frames.unsqueeze(0);
  batch.lengths_host = {frames.size(0)};
  return joint_evidence(batch, {0}, {&piece}, predicted).front();
}

TokenEvidence Confidence::emission_evidence(const at::Tensor& frames,
                                            const Hypothesis& hypothesis) const {
  TokenEvidence found;
  if (hypothesis.tokens.empty()) return found;
  const int64_t length = frames.size(0);
  const int64_t labels = model_->config.vocabulary + 1;
  const int64_t rows = places_at_once(labels);
  std::vector<int64_t> best;
  std::vector<double> confidence;
  for (int64_t first = 0; first < length; first += rows) {
    const at::Tensor part = frames.narrow(0, first, std::min(rows, length - first));
    const at::Tensor logits = model_->ctc_head->logits(part.unsqueeze(0)).squeeze(0);
    const auto labels_of_part = on_host<int64_t>(logits.argmax(1));
    best.insert(best.end(), labels_of_part.begin(), labels_of_part.end());
    if (!options_) continue;
    const auto sure =
        on_host<double>(confidence_of(logits.to(at::kFloat).log_softmax(1), *options_));
    confidence.insert(confidence.end(), sure.begin(), sure.end());
  }
  for (size_t i = 0; i < hypothesis.tokens.size(); ++i) {
    const auto begin = static_cast<size_t>(hypothesis.frames[i]);
    const auto next = static_cast<size_t>(next_frame(hypothesis, i, length));
    size_t end = begin + 1;
    while (end < next && best[end] == hypothesis.tokens[i]) ++end;
    found.runs.push_back(static_cast<int32_t>(end - begin));
    if (!options_) continue;
    if (!options_->exclude_blank) end = std::max(end, next);
    found.confidence.push_back(
        aggregate(std::span(confidence).subspan(begin, end - begin), options_->aggregation));
  }
  return found;
}

/// Returns one answer for each of `asked`, whose rows are indices of `hypotheses`.
std::vector<Confidence::Answer> Confidence::answers(const EncodedBatch& batch,
                                                    const std::vector<int64_t>& rows,
                                                    const at::Tensor& predicted,
                                                    const std::vector<Asked>& asked) const {
  const Transducer transducer(model_, {});
  const at::Device device = model_->device;
  const at::Tensor encoded = transducer.encode(batch.frames);
  const at::Tensor row = column(asked, &Asked::row, device);
  const at::Tensor of_batch = at::tensor(rows, at::kLong).to(device).index_select(0, row);
  const at::Tensor at_frame = of_batch * encoded.size(1) + column(asked, &Asked::frame, device);
  const at::Tensor at_prefix = row * predicted.size(1) + column(asked, &Asked::prefix, device);
  const int64_t labels = transducer.labels();
  const auto count = static_cast<int64_t>(asked.size());
  const int64_t step = places_at_once(labels);
  std::vector<Answer> found;
  for (int64_t first = 0; first < count; first += step) {
    const int64_t n = std::min(step, count - first);
    const auto rows_at = [&](const at::Tensor& all_rows, const at::Tensor& index) {
      return all_rows.flatten(0, 1).index_select(0, index.narrow(0, first, n));
    };
    const at::Tensor logits =
        transducer.logits(rows_at(encoded, at_frame), rows_at(predicted, at_prefix));
    const at::Tensor logprobs = logits.narrow(1, 0, labels).to(at::kFloat).log_softmax(1);
    const auto sure = on_host<double>(confidence_of(logprobs, *options_));
    std::vector<int64_t> skip(sure.size(), 1);
    if (transducer.skips_frames() && !options_->exclude_blank)
      skip = on_host<int64_t>(transducer.decide_logits(logits).durations.clamp_min(1));
    for (size_t k = 0; k < sure.size(); ++k) found.push_back({sure[k], skip[k]});
  }
  return found;
}

std::vector<TokenEvidence> Confidence::joint_evidence(
    const EncodedBatch& batch, const std::vector<int64_t>& rows,
    const std::vector<const Hypothesis*>& hypotheses, const at::Tensor& predicted) const {
  // Each token has its own place, followed by all frames where a blank may count for it.
  const auto blanks_of = [&](size_t i, size_t token) {
    const Hypothesis& h = *hypotheses[i];
    if (options_->exclude_blank) return std::pair<int64_t, int64_t>(0, 0);
    const int64_t length = batch.lengths_host[static_cast<size_t>(rows[i])];
    return std::pair(first_blank(h, token), next_frame(h, token, length));
  };
  std::vector<Asked> asked;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t t = 0; t < hypotheses[i]->tokens.size(); ++t) {
      const auto row = static_cast<int64_t>(i), prefix = static_cast<int64_t>(t);
      asked.push_back({row, prefix, hypotheses[i]->frames[t]});
      const auto [begin, end] = blanks_of(i, t);
      for (int64_t f = begin; f < end; ++f) asked.push_back({row, prefix + 1, f});
    }
  }
  std::vector<TokenEvidence> all(rows.size());
  if (asked.empty()) return all;

  const std::vector<Answer> found = answers(batch, rows, predicted, asked);
  const Answer* place = found.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t t = 0; t < hypotheses[i]->tokens.size(); ++t) {
      std::vector<double> values = {(place++)->confidence};
      const auto [begin, end] = blanks_of(i, t);
      for (int64_t f = begin; f < end; f += place[f - begin].skip)
        values.push_back(place[f - begin].confidence);
      place += std::max<int64_t>(0, end - begin);
      all[i].confidence.push_back(aggregate(values, options_->aggregation));
    }
  }
  return all;
}

}  // namespace rtfx
