"""torchaudio's decoders as decoders of rtfx: CUCTCDecoder (a CTC prefix beam on the GPU) and
RNNTBeamSearch (one utterance at a time). Neither reports the frames of its tokens. So CtcBeam puts all tokens at frame
0, and RnntBeam puts them at the first frames, as many at each as the model allows.
"""

from importlib.metadata import version

import torch

VERSIONS = {"torchaudio": version("torchaudio")}


class CtcBeam:
    """CUCTCDecoder. It leaves out frames in which blank is more probable than `skip`. With 1 it keeps all frames."""

    versions = VERSIONS

    def __init__(self, model, beam_size=8, skip=0.95):
        from torchaudio.models.decoder import cuda_ctc_decoder

        if model.device.type != "cuda":
            raise RuntimeError("torchaudio's CUCTCDecoder needs a GPU")
        self.model = model
        self.decoder = cuda_ctc_decoder(["<blank>", *model.pieces], nbest=1, beam_size=beam_size,
                                        blank_skip_threshold=skip)  # fmt: skip

    def decode(self, frames, lengths):
        log_probs = self.model.log_probs(frames).roll(1, dims=-1)  # torchaudio wants blank as token 0
        return self.decoder(log_probs.contiguous(), lengths.to(torch.int32))

    def results(self, hypotheses):
        best = [entries[0] for entries in hypotheses]
        tokens = [[token - 1 for token in entry.tokens] for entry in best]
        return tokens, [[0] * len(row) for row in tokens], [entry.score for entry in best]


class AsTorchaudio(torch.nn.Module):
    """The run's prediction network and joint network, behind the interface of torchaudio's RNNT."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def transcribe(self, frames, lengths):
        return self.model.project_encoder(frames), lengths

    def predict(self, labels, lengths, state):
        """Runs the prediction network. The state is a list with one list of tensors, rows first."""
        rows_first = self.model.config["prediction"]["kind"] == "stateless"
        turned = (lambda t: t) if rows_first else (lambda t: t.transpose(0, 1))
        given = self.model.initial_state(len(labels)) if state is None else tuple(map(turned, state[0]))
        output, state = self.model.predict(labels[:, 0], tuple(t.contiguous() for t in given))
        return self.model.project_prediction(output)[:, None], lengths, [list(map(turned, state))]

    def join(self, encoded, encoded_lengths, predicted, predicted_lengths):
        joint = self.model.joint(encoded[:, :, None], predicted[:, None])
        return joint.float(), encoded_lengths, predicted_lengths


class RnntBeam:
    versions = VERSIONS

    def __init__(self, model, beam_size=4):
        from torchaudio.models import RNNTBeamSearch

        if model.kind != "rnnt":
            raise ValueError(f"RNNTBeamSearch is for RNN-T, the model is of kind {model.kind}")
        self.beam_size = beam_size
        self.search = RNNTBeamSearch(AsTorchaudio(model), model.blank, step_max_tokens=model.max_symbols)

    def decode(self, frames, lengths):
        return [self.search(frames[row, :length], lengths[row], self.beam_size)[0] if length else None
                for row, length in enumerate(lengths.tolist())]  # fmt: skip

    def results(self, best):
        tokens = [hypothesis[0][1:] if hypothesis else [] for hypothesis in best]  # the first is blank
        frames = [[i // self.search.step_max_tokens for i in range(len(row))] for row in tokens]
        return tokens, frames, [h[3] if h else 0.0 for h in best]
