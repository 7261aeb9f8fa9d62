"""Makes tests/golden/data/standin256.jsonl.gz with NeMo (3.0.0, CPU, fp32): what standin256 recognises.

The first line holds the versions and the settings of the searches. Each other line is an utterance of
an4, mini_libri and spoken in the shared folder, decoded alone:
  ctc, rnnt, tdt      tokens, frames, durations (TDT) and score of greedy search. The score is the sum of
                      the logits of the tokens, which NeMo reports on a GPU.
  rnnt_lm, tdt_lm     tokens and frames of greedy search with the 6-gram; for every seventh utterance, as
  rnnt_nbest, tdt_nbest   {search: [[tokens, frames, score], ...]} of beam search

Needs the shared folder, data/standin256-{rnnt,tdt}.nemo, and a Python environment with
`pip install "nemo_toolkit[asr]==3.0.0" zopfli`:
  python tests/golden/make_standin256.py ../shared
"""

import argparse
import copy
import gzip
import json
import tempfile
from pathlib import Path

import nemo
import soundfile
import torch
from nemo.collections.asr.models import ASRModel
from nemo.collections.asr.parts.submodules.ngram_lm import NGramGPULanguageModel
from nemo.utils import logging
from omegaconf import OmegaConf, open_dict
from zopfli import gzip as zopfli

ROOT = Path(__file__).parents[2]
SETS = ["an4", "mini_libri", "spoken"]
EVERY = 7  # every seventh utterance is decoded by beam search
ALPHA, MAX_SYMBOLS = 0.3, 10
LATE = {"pruning_mode": "late", "blank_lm_score_mode": "lm_weighted_full"}
EARLY = {"pruning_mode": "early", "blank_lm_score_mode": "no_score"}
STEPS = {"maes_num_steps": 2, "maes_expansion_beta": 2, "maes_expansion_gamma": 2.3}
SEARCHES = {
    "malsd_b4_nolm": {"beam_size": 4},
    "malsd_b4_lm_early_no_score": {"beam_size": 4} | EARLY,
    "malsd_b8_lm_late_lm_weighted_full": {"beam_size": 8} | LATE,
    "maes_b4_nolm": {"beam_size": 4} | STEPS,
    "maes_b4_lm_early_no_score": {"beam_size": 4} | STEPS | EARLY,
    "maes_b8_lm_late_lm_weighted_full": {"beam_size": 8} | STEPS | LATE,
}


def numbers(values):
    return [int(value) for value in values]


def scored(hypothesis):
    return [
        numbers(hypothesis.y_sequence),
        numbers(hypothesis.timestamp),
        round(float(hypothesis.score), 4),
    ]


class Model:
    def __init__(self, kind, six_gram):
        path = ROOT / f"data/standin256-{kind}.nemo"
        self.model = ASRModel.restore_from(str(path), map_location="cpu").eval().float()
        self.model.preprocessor.featurizer.dither = 0.0
        self.model.preprocessor.featurizer.pad_to = 0
        self.settings = OmegaConf.to_container(self.model.cfg.decoding, resolve=True)
        self.tdt, self.six_gram = kind == "tdt", str(six_gram)

    def encode(self, path):
        samples, rate = soundfile.read(path, dtype="float32")
        assert rate == 16000
        signal, length = torch.from_numpy(samples)[None], torch.tensor([len(samples)])
        features, length = self.model.preprocessor(input_signal=signal, length=length)
        return self.model.encoder(audio_signal=features, length=length)

    def ctc(self, frames):
        labels = self.model.ctc_decoder(encoder_output=frames)[0].argmax(-1).tolist()
        blank = self.model.tokenizer.vocab_size
        kept = [i for i, k in enumerate(labels) if k != blank and (i == 0 or labels[i - 1] != k)]
        return {"tokens": [labels[i] for i in kept], "frames": kept}

    def search(self, strategy, section, settings):
        """Returns a function that decodes the frames of one utterance."""
        config = OmegaConf.create(copy.deepcopy(self.settings))
        if strategy == "greedy_batch":
            settings = settings | {"use_cuda_graph_decoder": False}
        else:
            settings = settings | {"allow_cuda_graphs": False, "score_norm": True, "return_best_hypothesis": False}
        with open_dict(config):
            config.strategy = strategy
            config[section] = dict(config[section]) | {"max_symbols": MAX_SYMBOLS} | settings
            if self.tdt:
                config.tdt_include_token_duration = True
        self.model.change_decoding_strategy(config, decoder_type="rnnt", verbose=False)
        decode = self.model.decoding.decoding
        return lambda encoded: decode(encoder_output=encoded[0], encoded_lengths=encoded[1])[0][0]

    def greedy(self, encoded):
        """Returns the tokens of all utterances. A second pass computes scores, since NeMo gives log-probabilities on a
        CPU."""
        decode = self.search("greedy_batch", "greedy", {})
        found = [decode(one) for one in encoded]
        self.model.joint.log_softmax = False
        for hypothesis, one in zip(found, encoded, strict=True):
            tokens, frames, score = scored(decode(one))
            assert tokens == numbers(hypothesis.y_sequence)
            line = {"tokens": tokens, "frames": frames, "score": score}
            yield line | ({"durations": numbers(hypothesis.token_duration)} if self.tdt else {})
        self.model.joint.log_softmax = None

    def with_language_model(self):
        return {"ngram_lm_model": self.six_gram, "ngram_lm_alpha": ALPHA}

    def greedy_with_language_model(self, encoded):
        decode = self.search("greedy_batch", "greedy", self.with_language_model())
        for one in encoded:
            tokens, frames, _ = scored(decode(one))
            yield {"tokens": tokens, "frames": frames}

    def lists(self, encoded):
        found = [{} for _ in encoded]
        for name, settings in SEARCHES.items():
            strategy = name.partition("_")[0]
            if self.tdt and strategy == "maes":
                continue  # NeMo has no such search for TDT
            model = self.with_language_model() if "pruning_mode" in settings else {}
            decode = self.search(f"{strategy}_batch", "beam", settings | model)
            for lists, one in zip(found, encoded, strict=True):
                lists[name] = [scored(hypothesis) for hypothesis in decode(one).n_best_hypotheses]
            print(name, flush=True)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="the shared folder (holds audio/ and lm/)")
    shared = parser.parse_args().shared
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    logging.setLevel(logging.ERROR)
    files = [file for name in SETS for file in sorted((shared / "audio" / name).glob("*.flac"))]
    lines = [{"file": f"{file.parent.name}/{file.name}"} for file in files]
    with tempfile.TemporaryDirectory() as folder:
        arpa, six_gram = Path(folder, "lm.arpa"), Path(folder, "lm.nemo")
        arpa.write_bytes(gzip.decompress((shared / "lm/token_6gram.arpa.gz").read_bytes()))
        NGramGPULanguageModel.from_file(str(arpa), vocab_size=1024).save_to(str(six_gram))
        encoded = None
        for kind in ("rnnt", "tdt"):
            model = Model(kind, six_gram)
            if encoded is None:  # both files have the same encoder and CTC head
                encoded = [model.encode(file) for file in files]
                for line, one in zip(lines, encoded, strict=True):
                    line["encoder_frames"] = int(one[1])
                    line["ctc"] = model.ctc(one[0])
            for line, found in zip(lines, model.greedy(encoded), strict=True):
                line[kind] = found
            print(kind, "greedy", flush=True)
            for line, found in zip(lines[::EVERY], model.greedy_with_language_model(encoded[::EVERY]), strict=True):
                line[f"{kind}_lm"] = found
            for line, found in zip(lines[::EVERY], model.lists(encoded[::EVERY]), strict=True):
                line[f"{kind}_nbest"] = found
    head = {
        "nemo": nemo.__version__,
        "torch": torch.__version__,
        "max_symbols": MAX_SYMBOLS,
        "lm_alpha": ALPHA,
        "searches": SEARCHES,
    }
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines])
    path = ROOT / "tests/golden/data/standin256.jsonl.gz"
    path.write_bytes(zopfli.compress(text.encode(), numiterations=100))
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
