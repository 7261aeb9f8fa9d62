"""Collects NeMo's confidences and times of words, which rtfx is compared with.

Runs NeMo (2.7.3, in an environment of its own) on the CPU in fp32, one utterance at a time, with each
setting of VARIANTS, and writes data/confidence.json beside this script:
  {model: {head: {utterance: {"text": ..., "words": [[text, begin, end], ...] in encoder frames,
                              "confidence": {variant: [of tokens, of words]}}}}}

    python make_confidence_golden.py quickstart-tdt/ctc=FILE.nemo ...    # a hybrid's transducer or ctc
"""

import argparse
import copy
import json
from pathlib import Path

import soundfile
import torch
from nemo.collections.asr.models import ASRModel
from omegaconf import open_dict

HERE = Path(__file__).parent
AUDIO = HERE.parents[1] / "datasets/quickstart"
IDS = ["qs06", "qs10"]
METHODS = {
    "max_prob": {"name": "max_prob", "alpha": 1.0},
    "max_prob_half": {"name": "max_prob", "alpha": 0.5},
    "gibbs_lin": {"name": "entropy", "entropy_type": "gibbs", "entropy_norm": "lin", "alpha": 1.0},
    "gibbs_exp": {"name": "entropy", "entropy_type": "gibbs", "entropy_norm": "exp", "alpha": 0.5},
    "tsallis_lin": {"name": "entropy", "entropy_type": "tsallis", "entropy_norm": "lin", "alpha": 0.5},
    "tsallis_exp": {"name": "entropy", "entropy_type": "tsallis", "entropy_norm": "exp", "alpha": 0.33},
}
VARIANTS = {name: (method, "min", True) for name, method in METHODS.items()}
VARIANTS |= {f"tsallis_exp_{a}": (METHODS["tsallis_exp"], a, True) for a in ("mean", "max", "prod")}
VARIANTS["max_prob_blank"] = (METHODS["max_prob"], "mean", False)


def encoded(model, path):
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == 16000
    signal = torch.from_numpy(samples)[None]
    with torch.inference_mode():
        frames, lengths = model.forward(input_signal=signal, input_signal_length=torch.tensor([len(samples)]))[:2]
    return frames, lengths


def confidences(model, head, frames, lengths, variant):
    method, aggregation, exclude_blank = variant
    full = model.cfg.aux_ctc.decoding if head == "ctc" else model.cfg.decoding
    cfg = copy.deepcopy(full)
    with open_dict(cfg):
        cfg.strategy = "greedy_batch"
        cfg.compute_timestamps = exclude_blank  # NeMo's RNN-T has one or the other
        cfg.preserve_alignments = True
        cfg.greedy.preserve_alignments = True
        if "use_cuda_graph_decoder" in cfg.greedy:
            cfg.greedy.use_cuda_graph_decoder = False
        cfg.confidence_cfg = {
            "preserve_frame_confidence": True, "preserve_token_confidence": True,
            "preserve_word_confidence": True, "exclude_blank": exclude_blank,
            "aggregation": aggregation, "method_cfg": method,
        }  # fmt: skip
    model.change_decoding_strategy(cfg, decoder_type="ctc" if head == "ctc" else "rnnt", verbose=False)
    with torch.inference_mode():
        if head == "ctc":
            logprobs = model.ctc_decoder(encoder_output=frames)
            (found,) = model.ctc_decoding.ctc_decoder_predictions_tensor(logprobs, lengths, return_hypotheses=True)
        else:
            (found,) = model.decoding.rnnt_decoder_predictions_tensor(frames, lengths, return_hypotheses=True)
    return found


def numbers(values):
    return [round(float(value), 6) for value in values]


def results(model, head):
    found = {}
    for name in IDS:
        entry = {"confidence": {}}
        frames = encoded(model, AUDIO / f"{name}.flac")
        for key, variant in VARIANTS.items():
            hypothesis = confidences(model, head, *frames, variant)
            entry["confidence"][key] = [numbers(hypothesis.token_confidence), numbers(hypothesis.word_confidence)]
            if key == "max_prob":
                entry["text"] = hypothesis.text
                entry["words"] = [[w["word"], int(w["start_offset"]), int(w["end_offset"])]
                                  for w in hypothesis.timestamp["word"]]  # fmt: skip
        found[name] = entry
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME/HEAD=FILE")
    torch.set_num_threads(1)
    output = {}
    for argument in parser.parse_args().models:
        name, _, path = argument.partition("=")
        name, _, head = name.partition("/")
        model = ASRModel.restore_from(path, map_location="cpu").eval().float()
        output.setdefault(name, {})[head] = results(model, head)
    target = HERE / "data/confidence.json"
    target.write_text(json.dumps(output, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
