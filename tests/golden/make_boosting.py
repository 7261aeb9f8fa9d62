"""Makes tests/golden/data/boosting.json with NeMo (3.0.0, CPU, fp32): boosting trees and their effect on searches.

  trees        phrases of tokens with NeMo's score and next state of every token in every state
  hypotheses   tokens of each utterance of datasets/quickstart, decoded alone with PHRASES boosted,
               for each checkpoint and search
  fscore       pairs of texts, and precision, recall and F-score of phrases by NeMo's compute_fscore

Needs a Python environment with `pip install "nemo_toolkit[asr]==3.0.0"`:
  python tests/golden/make_boosting.py
"""

import copy
import json
import random
import tempfile
from pathlib import Path

import nemo
import nemo.collections.asr as nemo_asr
import soundfile
import torch
from kaldialign import align
from nemo.collections.asr.parts.context_biasing.boosting_graph_batched import GPUBoostingTreeModel
from nemo.collections.asr.parts.context_biasing.context_biasing_utils import compute_fscore
from nemo.collections.asr.parts.context_biasing.context_graph_universal import ContextGraph
from nemo.core.classes.common import typecheck
from nemo.utils import logging
from omegaconf import OmegaConf, open_dict

ROOT = Path(__file__).parents[2]
AUDIO = ROOT / "datasets/quickstart"
MODELS = ROOT / "models/quickstart"
# The phrases are long words of the transcripts, words that were not said, and phrases that begin alike.
PHRASES = ["knit two together twice", "knit two", "knit", "together", "marmalade", "forty three", "elephant"]
ALPHA, CONTEXT_SCORE = 1.5, 1.0
MALSD = {
    "beam_size": 4,
    "max_symbols": 10,
    "allow_cuda_graphs": False,
    "score_norm": True,
    "pruning_mode": "late",
    "return_best_hypothesis": False,
}


def tree(phrases, vocabulary, context_score, depth_scaling, unk_score):
    graph = ContextGraph(context_score=context_score, depth_scaling=depth_scaling)
    graph.build(token_ids=[p["tokens"] for p in phrases], scores=[p["score"] for p in phrases])
    model = GPUBoostingTreeModel.from_context_graph(
        graph, vocab_size=vocabulary, unk_score=unk_score, use_triton=False, uniform_weights=False
    )
    states = torch.arange(graph.num_nodes + 1)
    scores, following = model.advance(states)
    return {
        "phrases": phrases,
        "vocabulary": vocabulary,
        "context_score": context_score,
        "depth_scaling": depth_scaling,
        "unk_score": unk_score,
        "scores": [[float(x) for x in row] for row in scores],
        "next_states": following.tolist(),
    }


def trees():
    draw = random.Random(5)

    def phrases(count, vocabulary, longest, scored):
        return [
            {
                "tokens": [draw.randrange(vocabulary) for _ in range(draw.randint(1, longest))],
                "score": draw.choice([0, 0.5, 1.25, 3]) if scored else 0,
            }
            for _ in range(count)
        ]

    return [
        tree(phrases(1, 4, 3, False), 5, 1.0, 2.0, 0.0),
        tree(phrases(6, 3, 5, False), 5, 1.0, 2.0, 0.0),
        tree(phrases(12, 3, 6, True), 4, 0.7, 1.0, -0.25),
        tree(phrases(40, 6, 6, True), 20, 1.5, 2.0, 0.0),
        tree([{"tokens": [0] * 9, "score": 0}, {"tokens": [0, 0, 1], "score": 2}], 3, 1.0, 2.0, 0.0),
    ]


def hypotheses(path, utterances):
    logging.setLevel(logging.ERROR)
    typecheck.set_typecheck_enabled(False)  # the CTC search needs this
    torch.set_grad_enabled(False)
    model = nemo_asr.models.ASRModel.restore_from(str(path), map_location="cpu").eval().float()
    model.preprocessor.featurizer.dither = 0.0
    model.preprocessor.featurizer.pad_to = 0
    base = OmegaConf.to_container(model.cfg.decoding, resolve=True)
    boosting = {
        "boosting_tree": {
            "key_phrases_list": PHRASES,
            "context_score": CONTEXT_SCORE,
            "use_triton": False,
        },
        "boosting_tree_alpha": ALPHA,
    }
    searches = {
        "label_looping": ("greedy_batch", "greedy", {"use_cuda_graph_decoder": False, "max_symbols": 10}),
        "alsd_pp": ("malsd_batch", "beam", MALSD | {"blank_lm_score_mode": "no_score"}),
        "alsd_pp_weighted": ("malsd_batch", "beam", MALSD | {"blank_lm_score_mode": "lm_weighted_full"}),
        "ctc_greedy": ("greedy_batch", "greedy", {"allow_cuda_graphs": False}),
    }
    encoded = {}
    for name in utterances:
        samples, rate = soundfile.read(AUDIO / f"{name}.flac", dtype="float32")
        assert rate == 16000
        mel, frames = model.preprocessor(
            input_signal=torch.from_numpy(samples)[None], length=torch.tensor([len(samples)])
        )
        encoded[name] = model.encoder(audio_signal=mel, length=frames)
    found = {}
    for search, (strategy, section, settings) in searches.items():
        ctc = search == "ctc_greedy"
        config = OmegaConf.create(copy.deepcopy({} if ctc else base))
        with open_dict(config):
            config.strategy = strategy
            config[section] = dict(config.get(section) or {}) | settings | boosting
        model.change_decoding_strategy(config, decoder_type="ctc" if ctc else "rnnt", verbose=False)
        decoding = (model.ctc_decoding if ctc else model.decoding).decoding
        found[search] = {}
        for name, (frames, length) in encoded.items():
            if ctc:
                emissions = model.ctc_decoder(encoder_output=frames)
                best = decoding(decoder_output=emissions, decoder_lengths=length)[0][0]
                labels = torch.as_tensor(best.y_sequence).tolist()
                blank = model.tokenizer.vocab_size
                tokens = [k for i, k in enumerate(labels) if k != blank and (i == 0 or labels[i - 1] != k)]
            else:
                best = decoding(encoder_output=frames, encoded_lengths=length)[0][0]
                best = best.n_best_hypotheses[0] if section == "beam" else best
                tokens = [int(k) for k in best.y_sequence]
            found[search][name] = tokens
    return found


def fscores():
    draw = random.Random(7)
    words = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "en", "ol")]
    phrases = draw.sample(words, 6) + [" ".join(draw.sample(words, n)) for n in (2, 2, 2, 3, 3)]
    phrases.append(phrases[0] + " " + phrases[1])  # joins two single phrases
    lines = []
    while len(lines) < 60:
        said = []
        while len(said) < 10:
            said += draw.choice(phrases).split() if draw.random() < 0.3 else [draw.choice(words)]
        heard = []
        for word in said:
            chance = draw.random()
            heard += [] if chance < 0.1 else [draw.choice(words)] if chance < 0.25 else [word]
            heard += draw.choice(phrases).split() if draw.random() < 0.05 else []
        # Several alignments may be equally good, and another program may choose another one of them.
        if align(said, heard, "-") == align(said[::-1], heard[::-1], "-")[::-1]:
            lines.append({"text": " ".join(said), "pred_text": " ".join(heard)})
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(line | {"audio_filepath": "a.wav"}) + "\n" for line in lines))
        file.flush()
        precision, recall, fscore = compute_fscore(file.name, phrases)
    return {"phrases": phrases, "lines": lines, "precision": precision, "recall": recall, "f_score": fscore}


if __name__ == "__main__":
    names = sorted(file.stem for file in AUDIO.glob("*.flac"))
    reference = {
        "nemo": nemo.__version__,
        "phrases": PHRASES,
        "scale": ALPHA,
        "context_score": CONTEXT_SCORE,
        "trees": trees(),
        "fscore": fscores(),
        "hypotheses": {
            model: hypotheses(MODELS / f"{model}.nemo", names)
            for model in ["quickstart-rnnt", "quickstart-tdt"]
        },
    }
    text = json.dumps(reference, separators=(",", ":")).replace('"trees"', '\n"trees"').replace('"hyp', '\n"hyp')
    (ROOT / "tests/golden/data/boosting.json").write_text(text + "\n")
