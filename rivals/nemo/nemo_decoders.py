"""NeMo's batched decoders as decoders of rtfx. They call NeMo's own classes on the frames and weights of the run.

The time of a call is the time of NeMo's whole `forward`. Some of NeMo's decoders compute on the device first and then
make Hypothesis objects. The counter `objects_us` tells these parts apart: `forward` is called with the result of the
first part in place of its computation.
"""

import atexit
import functools
import gzip
import os
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from nemo.collections.asr.modules.conv_asr import ConvASRDecoder
from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint, StatelessTransducerDecoder
from nemo.collections.asr.parts.context_biasing import BoostingTreeModelConfig, GPUBoostingTreeModel
from nemo.collections.asr.parts.submodules.ctc_beam_decoding import BeamBatchedCTCInfer
from nemo.collections.asr.parts.submodules.ctc_greedy_decoding import GreedyBatchedCTCInfer
from nemo.collections.asr.parts.submodules.ngram_lm import NGramGPULanguageModel
from nemo.collections.asr.parts.submodules.rnnt_beam_decoding import BeamBatchedRNNTInfer
from nemo.collections.asr.parts.submodules.rnnt_greedy_decoding import (
    GreedyBatchedRNNTInfer,
    GreedyBatchedTDTInfer,
)
from nemo.collections.asr.parts.submodules.tdt_beam_decoding import BeamBatchedTDTInfer
from nemo.utils import logging
from nvrtc_log import keep_out_of_constants

logging.setLevel(logging.ERROR)
keep_out_of_constants()

# The searches of a run share the models that were read, since NeMo takes 10 s for an ARPA file of 20 MB.
NGramGPULanguageModel.from_file = functools.cache(NGramGPULanguageModel.from_file)

GRAPH_MODES = ("full_graph", "no_while_loops", "no_graphs")


def filled(module, weights, model):
    """Returns the module with these weights, set up for inference."""
    missing = module.load_state_dict(weights, strict=False).missing_keys
    if missing:
        raise RuntimeError(f"no weights for {', '.join(missing)}")
    return module.to(model.device, model.dtype).eval()


def weights_below(model, prefix):
    return {name.removeprefix(prefix): weight for name, weight in model.tensors.items()
            if name.startswith(prefix)}  # fmt: skip


def heads(model, log_softmax=None):
    """Returns NeMo's prediction network and joint. With `log_softmax` None, NeMo applies it on a CPU only."""
    own = model.config["prediction"]
    prednet = {"pred_hidden": own["width"], "pred_rnn_layers": own["layers"], "t_max": None, "dropout": 0.0}
    if own["kind"] == "lstm":
        decoder = RNNTDecoder(prednet=prednet, vocab_size=model.vocabulary)
    else:
        norm = "layer" if own["layer_norm"] else None
        decoder = StatelessTransducerDecoder(prednet=prednet, vocab_size=model.vocabulary,
                                             context_size=own["context_size"], normalization_mode=norm)  # fmt: skip
    jointnet = {
        "encoder_hidden": model.config["frame_width"],
        "pred_hidden": own["width"],
        "joint_hidden": model.config["joint_width"],
        "activation": model.config["joint_activation"],
        "dropout": 0.0,
    }
    joint = RNNTJoint(jointnet=jointnet, num_classes=model.vocabulary,
                      num_extra_outputs=len(model.durations), vocabulary=model.pieces,
                      log_softmax=log_softmax)  # fmt: skip
    last = len(joint.joint_net) - 1
    weights = {name.replace("joint_net.", f"joint_net.{last}."): weight
               for name, weight in weights_below(model, "joint.").items()}  # fmt: skip
    return (filled(decoder, weights_below(model, "decoder."), model), filled(joint, weights, model))


class Pieces:
    """The parts of the checkpoint's SentencePiece model that boosting of phrases needs."""

    def __init__(self, nemo):
        import sentencepiece

        with tarfile.open(nemo) as archive:
            name = next(n for n in archive.getnames() if n.endswith("tokenizer.model"))
            model = archive.extractfile(name).read()
        self.model = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = self.model.vocab_size()

    def text_to_ids(self, text):
        return self.model.encode(text)


@functools.cache
def plain(path):
    """Returns the path of a file that NeMo can read, which is an unpacked copy for .gz."""
    if not path.endswith(".gz"):
        return path
    with tempfile.NamedTemporaryFile(suffix=Path(path).stem, delete=False) as file:
        file.write(gzip.open(path).read())
    atexit.register(os.unlink, file.name)
    return file.name


def phrases_of(boost):
    """Returns the phrases of `boost`: a file with a phrase on each line, or phrases separated by commas."""
    if not boost:
        return []
    text = Path(boost).read_text(encoding="utf-8") if Path(boost).is_file() else boost.replace(",", "\n")
    return [phrase.strip() for phrase in text.split("\n") if phrase.strip()]


def boosted(boost, nemo):
    """Returns (settings of a boosting tree, tokenizer)."""
    if not nemo:
        raise ValueError("phrases are boosted by their pieces: `nemo` must name the .nemo file")
    return BoostingTreeModelConfig(key_phrases_list=phrases_of(boost)), Pieces(nemo)


def fusions(model, lm, lm_alpha, boost, boost_alpha, nemo):
    """Returns (fusion models, their weights) for a file of an n-gram model and for phrases."""
    models, alphas = [], []
    if lm:
        models.append(NGramGPULanguageModel.from_file(lm_path=plain(lm), vocab_size=model.vocabulary))
        alphas.append(lm_alpha)
    if boost:
        models.append(GPUBoostingTreeModel.from_config(*boosted(boost, nemo)))
        alphas.append(boost_alpha)
    models = [one.to(model.device) for one in models]
    return (models, alphas) if models else (None, None)


def keep_loop_memory(owner, device):
    """Gives the body of NeMo's loops a memory pool of its own, which stays while the graph exists.

    NeMo records the body of a loop on a stream of its own, and LibTorch does not count this capture as part of the
    graph. The body's memory would come from the common pool and go back to it. Others could then use or free memory
    that the graph still writes to."""
    name = next((n for n in ("_graph_reinitialize", "_reinitialize") if hasattr(owner, n)), None)
    if not name or device.type != "cuda":
        return
    record, pool = getattr(owner, name), torch.cuda.MemPool()

    def recorded(*arguments, **options):
        with torch.cuda.use_mem_pool(pool, device):
            return record(*arguments, **options)

    setattr(owner, name, recorded)


class Computed:
    """Replaces NeMo's computer, the object that runs its search, and returns a result that was computed before."""

    def __init__(self, computer):
        self.computer, self.answer = computer, None

    def __call__(self, *_, **__):
        return self.answer

    def __getattr__(self, name):
        return getattr(self.computer, name)


class Decoder:
    """The common part of all decoders. `infer` is an object of NeMo's class, and inputs() makes the arguments of its
    forward(). rtfx counts the recall of the phrases in `boost`."""

    versions = {"nemo": version("nemo_toolkit")}
    has_durations = False

    def __init__(self, model, infer, graphs, boost=None):
        self.model, self.infer = model, infer
        self.boosted_words = phrases_of(boost)
        for owner in (infer, getattr(infer, "_greedy_decode", None)):
            keep_loop_memory(owner, model.device)
        self.name = next((n for n in ("decoding_computer", "_decoding_computer", "search_algorithm")
                          if getattr(infer, n, None) is not None), None)  # fmt: skip
        if self.name:
            self.computer = getattr(infer, self.name)
            keep_loop_memory(self.computer, model.device)
            self.computed = Computed(self.computer)
            setattr(infer, self.name, self.computed)
            self.objects = self._objects
        if isinstance(graphs, str):
            if graphs not in GRAPH_MODES:
                raise ValueError(f"graphs: {graphs!r}; allowed: true, false, {', '.join(GRAPH_MODES)}")
            self.computer.force_cuda_graphs_mode(graphs)
        on_gpu = model.device.type == "cuda"
        mode = getattr(getattr(self, "computer", None), "cuda_graphs_mode", None) if on_gpu else None
        if on_gpu and type(getattr(infer, "_greedy_decode", None)).__name__ == "RNNTGreedyDecodeCudaGraph":
            mode = "frame_graph"
        self.versions = self.versions | {"graph_mode": str(getattr(mode, "value", mode)).lower()}

    def decode(self, frames, lengths):
        self.given = self.inputs(frames, lengths)
        if not self.name:
            return self.infer(**self.given)[0]
        return self.compute(frames, lengths)

    def compute(self, frames, lengths):
        return self.computer(x=frames, out_len=lengths)

    def _objects(self, found):
        self.computed.answer = found
        return self.infer(**self.given)[0]

    def inputs(self, frames, lengths):
        return {"encoder_output": frames.transpose(1, 2), "encoded_lengths": lengths}

    def results(self, hypotheses):
        """Returns the results without blanks and padding."""
        rows = [self.row(h.n_best_hypotheses[0] if hasattr(h, "n_best_hypotheses") else h) for h in hypotheses]
        names = ("tokens", "frames", "scores", "durations")[: 4 if self.has_durations else 3]
        return dict(zip(names, zip(*rows))) if rows else {name: [] for name in names}

    def row(self, hypothesis):
        labels, frames = listed(hypothesis.y_sequence), listed(hypothesis.timestamp)
        keep = [i for i, label in enumerate(labels) if 0 <= label < self.model.vocabulary]
        durations = labels
        if self.has_durations:
            known = hypothesis.token_duration
            durations = self.assumed_durations(frames) if known is None else listed(known)
        columns = ([values[i] for i in keep] for values in (labels, frames, durations))
        tokens, frames, durations = columns
        return tokens, frames, float(hypothesis.score), durations


    def assumed_durations(self, frames):
        """Returns the longest durations that do not pass the next token's frame. It serves the beam search of NeMo
        2.7.3, which returns no durations."""
        gaps = [after - before for before, after in zip(frames, [*frames[1:], float("inf")])]
        return [max((d for d in self.model.durations if d <= gap), default=0) for gap in gaps]


def listed(values):
    return values.tolist() if hasattr(values, "tolist") else [int(value) for value in values]


class Greedy(Decoder):
    """NeMo's strategy greedy_batch. `search` is label_looping, or for RNN-T also frame_looping. `graphs` is true,
    false, or the mode of CUDA graphs that label looping uses."""

    def __init__(self, model, search="label_looping", graphs=True, lm=None, lm_alpha=0.3, boost=None,
                 boost_alpha=1.0, nemo=None):  # fmt: skip
        if search not in ("label_looping", "frame_looping"):
            raise ValueError(f"search: {search!r}; allowed: label_looping, frame_looping")
        decoder, joint = heads(model, log_softmax=False)  # scores are logits on a CPU too
        fusion, alphas = fusions(model, lm, lm_alpha, boost, boost_alpha, nemo)
        settings = {"decoder_model": decoder, "joint_model": joint, "blank_index": model.blank,
                    "max_symbols_per_step": model.max_symbols, "use_cuda_graph_decoder": bool(graphs),
                    "fusion_models": fusion, "fusion_models_alpha": alphas}  # fmt: skip
        if model.kind != "tdt":
            infer = GreedyBatchedRNNTInfer(loop_labels=search == "label_looping", **settings)
        elif search == "label_looping":
            self.has_durations = True
            infer = GreedyBatchedTDTInfer(durations=model.durations, include_duration=True, **settings)
        else:
            raise ValueError("NeMo has frame looping for RNN-T alone")
        super().__init__(model, infer, graphs, boost)


class Beam(Decoder):
    """NeMo's strategy malsd_batch, or for RNN-T also maes_batch, which has no CUDA graphs. The scores are ln p, not
    divided by a length."""

    def __init__(self, model, search="malsd_batch", beam_size=4, graphs=True, score_norm=True, lm=None,
                 lm_alpha=0.3, boost=None, boost_alpha=1.0, nemo=None, **settings):  # fmt: skip
        decoder, joint = heads(model)
        fusion, alphas = fusions(model, lm, lm_alpha, boost, boost_alpha, nemo)
        settings |= {"decoder_model": decoder, "joint_model": joint, "blank_index": model.blank,
                     "beam_size": beam_size, "search_type": search, "score_norm": score_norm,
                     "max_symbols_per_step": model.max_symbols, "allow_cuda_graphs": bool(graphs),
                     "fusion_models": fusion, "fusion_models_alpha": alphas}  # fmt: skip
        if model.kind == "tdt":
            self.has_durations = True
            infer = BeamBatchedTDTInfer(durations=model.durations, **settings)
        else:
            infer = BeamBatchedRNNTInfer(**settings)
        super().__init__(model, infer, graphs, boost)


class Ctc(Decoder):
    def __init__(self, model, infer, graphs, boost=None):
        self.head = ConvASRDecoder(model.config["frame_width"], model.vocabulary, vocabulary=model.pieces)
        weights = weights_below(model, "ctc.")
        weights = {f"decoder_layers.0.{name}": w.unsqueeze(-1) if w.dim() == 2 else w for name, w in weights.items()}
        self.head = filled(self.head, weights, model)
        super().__init__(model, infer, graphs, boost)

    def inputs(self, frames, lengths):
        log_probs = self.head(encoder_output=frames.transpose(1, 2)).detach()  # without NeMo's type
        return {"decoder_output": log_probs, "decoder_lengths": lengths}

    def compute(self, frames, lengths):
        return self.computer(*self.given.values())


class CtcGreedy(Ctc):
    """NeMo's strategy greedy_batch of CTC. Its result is a label for each frame."""

    def __init__(self, model, graphs=True, lm=None, lm_alpha=0.3, boost=None, boost_alpha=1.0, nemo=None):
        tree, tokenizer = boosted(boost, nemo) if boost else (None, None)
        infer = GreedyBatchedCTCInfer(
            blank_id=model.blank, ngram_lm_model=lm and plain(lm), ngram_lm_alpha=lm_alpha, allow_cuda_graphs=graphs,
            boosting_tree=tree, boosting_tree_alpha=boost_alpha, tokenizer=tokenizer)  # fmt: skip
        super().__init__(model, infer, graphs, boost)

    def row(self, hypothesis):
        labels = listed(hypothesis.y_sequence)
        keep = [i for i, label in enumerate(labels)
                if label != self.model.blank and (i == 0 or label != labels[i - 1])]  # fmt: skip
        return [labels[i] for i in keep], keep, float(hypothesis.score), keep


class CtcBeam(Ctc):
    """NeMo's strategy beam_batch of CTC."""

    def __init__(self, model, beam_size=8, graphs=True, lm=None, lm_alpha=0.3, boost=None, boost_alpha=1.0,
                 nemo=None, beam_beta=0.0, **settings):  # fmt: skip
        tree, tokenizer = boosted(boost, nemo) if boost else (None, None)
        infer = BeamBatchedCTCInfer(
            blank_index=model.blank, beam_size=beam_size, ngram_lm_model=lm and plain(lm), beam_beta=beam_beta,
            ngram_lm_alpha=lm_alpha if lm else 0.0, allow_cuda_graphs=graphs,
            boosting_tree=tree, boosting_tree_alpha=boost_alpha, tokenizer=tokenizer, **settings)  # fmt: skip
        super().__init__(model, infer, graphs, boost)

    def inputs(self, frames, lengths):
        """Fills the padding, because this search adds it to the scores. rtfx's padding may be NaN, unlike that of
        NeMo's encoder."""
        ended = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
        return super().inputs(frames.masked_fill(ended[..., None], 0), lengths)
