#include "algorithms/decoders/greedy/label_looping/script.h"

#include <ATen/ATen.h>
#include <torch/jit.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/gpu/host_read.h"
#include "base/error.h"

namespace rtfx {

namespace {

/// LabelLooping::search() with a window of 1 as a TorchScript program. `weights` holds w_ih, w_hh,
/// b_ih, b_hh of each LSTM layer. `head` holds weight and bias of the joint's prediction projection
/// and of its output. 6 and 4 are LibTorch's numbers for float32 and int64.
const char* const kProgram = R"JIT(
def predict(labels, h: List[Tensor], c: List[Tensor], embedding, weights: List[Tensor],
            head: List[Tensor]) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
    x = torch.embedding(embedding, labels)
    next_h: List[Tensor] = []
    next_c: List[Tensor] = []
    for i in range(len(h)):
        x, cell = torch.lstm_cell(x, [h[i], c[i]], weights[4 * i], weights[4 * i + 1],
                                  weights[4 * i + 2], weights[4 * i + 3])
        next_h.append(x)
        next_c.append(cell)
    return torch.linear(x, head[0], head[1]), next_h, next_c

def decide(encoded, time, last, prediction, head: List[Tensor], activation: int, durations,
           blank: int, log_probabilities: bool) -> Tuple[Tensor, Tensor, Tensor]:
    frame = torch.minimum(time, last).view([-1, 1, 1]).expand([-1, 1, encoded.size(2)])
    hidden = torch.gather(encoded, 1, frame).squeeze(1) + prediction
    if activation == 0:
        hidden = torch.relu(hidden)
    elif activation == 1:
        hidden = torch.tanh(hidden)
    else:
        hidden = torch.sigmoid(hidden)
    logits = torch.linear(hidden, head[2], head[3])
    tokens = torch.narrow(logits, -1, 0, blank + 1)
    score, label = torch.max(tokens, -1)
    if log_probabilities:
        score = score.to(6) - torch.logsumexp(tokens.to(6), [-1])
    is_blank = label == blank
    duration = is_blank.to(4)
    if durations.numel() > 0:
        best, index = torch.max(torch.narrow(logits, -1, blank + 1, durations.numel()), -1)
        duration = torch.take(durations, index)
        duration = torch.where(is_blank, torch.clamp(duration, 1), duration)
    return label, score, duration

def search(encoded, lengths, h: List[Tensor], c: List[Tensor], embedding, weights: List[Tensor],
           head: List[Tensor], activation: int, durations, blank: int, max_symbols: int,
           log_probabilities: bool) -> Tuple[List[Tensor], List[Tensor], List[Tensor],
                                             List[Tensor], List[Tensor], int]:
    all_labels: List[Tensor] = []
    all_frames: List[Tensor] = []
    all_durations: List[Tensor] = []
    all_scores: List[Tensor] = []
    all_found: List[Tensor] = []
    inner = 0
    time = torch.zeros_like(lengths)
    last = torch.clamp(lengths - 1, 0)
    last_frame = torch.full_like(lengths, -1)
    used = torch.zeros_like(lengths)
    prediction, h, c = predict(torch.full_like(lengths, blank), h, c, embedding, weights, head)
    active = time < lengths
    while bool(torch.any(active)):
        label, score, duration = decide(encoded, time, last, prediction, head, activation,
                                        durations, blank, log_probabilities)
        label = torch.where(active, label, torch.full_like(label, blank))
        frame = time
        time = torch.where(active, time + duration, time)
        searching = torch.logical_and(torch.logical_and(active, label == blank), time < lengths)
        while bool(torch.any(searching)):
            inner += 1
            next_label, next_score, next_duration = decide(
                encoded, time, last, prediction, head, activation, durations, blank,
                log_probabilities)
            label = torch.where(searching, next_label, label)
            score = torch.where(searching, next_score, score)
            duration = torch.where(searching, next_duration, duration)
            frame = torch.where(searching, time, frame)
            time = torch.where(searching, time + next_duration, time)
            searching = torch.logical_and(torch.logical_and(searching, label == blank),
                                          time < lengths)
        found = label != blank
        all_labels.append(label)
        all_frames.append(frame)
        all_durations.append(duration)
        all_scores.append(score)
        all_found.append(found)
        used = torch.where(found, torch.where(last_frame == frame, used + 1, torch.ones_like(used)),
                           used)
        last_frame = torch.where(found, frame, last_frame)
        stepped, step_h, step_c = predict(label, h, c, embedding, weights, head)
        rows = torch.unsqueeze(found, 1)
        prediction = torch.where(rows, stepped, prediction)
        for i in range(len(h)):
            h[i] = torch.where(rows, step_h[i], h[i])
            c[i] = torch.where(rows, step_c[i], c[i])
        forced = torch.logical_and(torch.logical_and(found, used >= max_symbols), time == frame)
        time = time + forced.to(4)
        active = time < lengths
    return all_labels, all_frames, all_durations, all_scores, all_found, inner
)JIT";

}  // namespace

LabelLoopingScript::LabelLoopingScript(std::shared_ptr<const AcousticModel> model,
                                       int64_t max_symbols, bool log_probabilities)
    : model_(std::move(model)),
      program_(torch::jit::compile(kProgram)),
      durations_(at::tensor(model_->config.durations, at::kLong).to(model_->device)),
      max_symbols_(max_symbols),
      log_probabilities_(log_probabilities) {
  if (model_->prediction->layers().empty()) {
    throw UserError("label_looping", R"("loop": "script" is for LSTM prediction networks)",
                    "choose another loop");
  }
  if (model_->config.is_multiblank()) {
    throw UserError("label_looping", R"("loop": "script" does not decode multi-blank models)",
                    "choose another loop");
  }
}

LabelLoopingScript::Result LabelLoopingScript::run(const EncodedBatch& batch) const {
  const AllowSync tests_of_loops;
  const PredictionNetwork& network = *model_->prediction;
  const Joint& joint = *model_->joint;
  c10::List<at::Tensor> weights, h, c;
  const PredictionState start = network.initial_state(batch.lengths.size(0));
  for (size_t i = 0; i < network.layers().size(); ++i) {
    const PredictionNetwork::LstmLayer& layer = network.layers()[i];
    for (const at::Tensor& weight : {layer.w_ih, layer.w_hh, layer.b_ih, layer.b_hh})
      weights.push_back(weight);
    h.push_back(start.h[static_cast<int64_t>(i)]);
    c.push_back(start.c[static_cast<int64_t>(i)]);
  }
  const c10::List<at::Tensor> head({joint.prediction().weight, joint.prediction().bias,
                                    joint.output().weight, joint.output().bias});
  const bool tdt = model_->config.is_tdt();
  const c10::IValue found = program_->run_method(
      "search", batch.frames, batch.lengths, h, c, network.embeddings().front(), weights, head,
      static_cast<int64_t>(joint.activation()), durations_, network.blank(), max_symbols_,
      log_probabilities_);
  const auto& lists = found.toTupleRef().elements();
  const auto outer = static_cast<int64_t>(lists[0].toList().size());
  BatchedHypotheses hypotheses(batch.frames, batch.lengths, tdt, outer);
  const auto list = [&](size_t i) { return lists[i].toTensorVector(); };
  const auto labels = list(0), frames = list(1), lasting = list(2), scores = list(3),
             mask = list(4);
  for (size_t i = 0; i < labels.size(); ++i)
    hypotheses.append(mask[i], labels[i], frames[i], lasting[i], scores[i]);
  return {hypotheses.result(), outer, lists[5].toInt()};
}

}  // namespace rtfx
