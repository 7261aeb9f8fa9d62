"""Greedy RNN-T in PyTorch: all rows of a batch, frame by frame."""

import torch


class Greedy:
    def __init__(self, model):
        if model.kind != "rnnt":
            raise ValueError(f"this is for RNN-T, the model is of kind {model.kind}")
        self.model = model

    def best(self, encoded, predicted):
        """Returns logit and id of the best label, [B] each, for projected frames and predictions [B, H]."""
        return self.model.joint(encoded, predicted).max(-1)

    def decode(self, frames, lengths):
        model, rows = self.model, len(lengths)
        encoded = model.project_encoder(frames)  # [B, T, H]
        start = torch.full((rows,), model.blank, device=frames.device)
        output, state = model.predict(start, model.initial_state(rows))
        predicted = model.project_prediction(output)
        scores = torch.zeros(rows, device=frames.device)
        steps = []  # (frame, label of each row, whether the row emits it)
        for frame in range(int(lengths.max()) if rows else 0):
            emits = frame < lengths
            for _ in range(model.max_symbols):
                logits, labels = self.best(encoded[:, frame], predicted)
                emits = emits & (labels != model.blank)
                if not emits.any():  # waits for the device
                    break
                steps.append((frame, labels, emits))
                scores += torch.where(emits, logits.float(), 0)
                output, following = model.predict(labels, state)
                state = tuple(torch.where(emits[:, None], *pair) for pair in zip(following, state))
                predicted = torch.where(emits[:, None], model.project_prediction(output), predicted)
        return steps, scores

    def objects(self, found):
        """Returns lists on the host. The journal counts the time of this apart from the search."""
        steps, scores = found
        lists = [(frame, labels.tolist(), emits.tolist()) for frame, labels, emits in steps]
        rows = range(len(scores))
        tokens = [[labels[row] for _, labels, emits in lists if emits[row]] for row in rows]
        frames = [[frame for frame, _, emits in lists if emits[row]] for row in rows]
        return tokens, frames, scores.tolist()
