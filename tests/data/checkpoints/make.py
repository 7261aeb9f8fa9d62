#!/usr/bin/env python3
"""Makes the tiny checkpoints of this folder, and their references, again.

    pip install nemo_toolkit[asr]==3.0.0 transformers==5.23.0 soundfile
    python tests/data/checkpoints/make.py [NAME...]

Every model has random weights. Two things are done to them after the draw, so that the references do not hang on
the last bit of a sum: the output layer is centred and its blank given a bias such that about every second decision is
a blank, and then the output layer is fitted until every greedy decision of the references is taken with a margin of
MARGIN at least. A file counts only if it gives the same tokens when noise is added to its features.
"""
import copy
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORK = tempfile.TemporaryDirectory()
os.chdir(WORK.name)  # the names of tokenizer folders end up in the checkpoints: keep them relative

import sentencepiece
import soundfile
import torch
import transformers
from nemo.collections.asr import models as nemo_models
from nemo.utils import logging
from omegaconf import OmegaConf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import Unigram
from transformers.convert_slow_tokenizer import ParakeetConverter

logging.setLevel(logging.ERROR)
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.set_grad_enabled(False)

MARGIN = 0.05
FILES = sorted((ROOT / "datasets/quickstart").glob("*.flac"))[:6]
AUDIO = [soundfile.read(str(path), dtype="float32")[0] for path in FILES]
CHARACTERS = list(" abcdefghijklmnopqrstuvwxyz'")
DURATIONS = [0, 1, 2, 3, 4]


# --- vocabularies ---------------------------------------------------------------------------------------------------
def make_vocabularies():
    pieces = (ROOT / "tests/data/pieces.model").read_bytes()
    lines = (ROOT / "datasets/quickstart/manifest.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"].upper() for line in lines]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix="upper", model_type="unigram", vocab_size=60, bos_id=-1, eos_id=-1,
        normalization_rule_name="identity", hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )
    for name, model in (("lower", pieces), ("upper", Path("upper.model").read_bytes())):
        Path(name).mkdir()
        Path(name, "tokenizer.model").write_bytes(model)
        words = sentencepiece.SentencePieceProcessor(model_proto=model)
        words = [(words.id_to_piece(i), words.get_score(i)) for i in range(words.get_piece_size())]
        plain = [piece[1:] if piece.startswith("▁") else "##" + piece for piece, _ in words[1:]]
        Path(name, "vocab.txt").write_text("\n".join(plain) + "\n", encoding="utf-8")
        Path(name, "tokenizer.vocab").write_text("".join(f"{p}\t{s:g}\n" for p, s in words), encoding="utf-8")
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, "the", ",", "?", *("##" + c for c in letters)]
    # NeMo asks for this name whatever the vocabulary; a folder of the name serves instead of the hub.
    for name in ("words", "bert-base-cased"):
        Path(name).mkdir()
        Path(name, "vocab.txt").write_text("\n".join([*words, "##ing", "##ed"]) + "\n", encoding="utf-8")
    Path("bert-base-cased/config.json").write_text('{"model_type": "bert"}')
    Path("bert-base-cased/tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


# --- random weights, and what makes their decisions firm ------------------------------------------------------------
def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        draw = torch.randn(value.shape, generator=generator)
        if "bias_u" in name or "bias_v" in name:
            value.copy_(0.5 * draw)
        elif "embed" in name:  # a row of zeros is NeMo's padding and stays
            value.copy_(draw * (value != 0).any(-1, keepdim=True))
        elif value.dim() > 1:
            value.copy_(1.6 * draw / value[0].numel() ** 0.5)
        elif "norm" in name and name.endswith("weight"):
            value.copy_(1 + 0.2 * draw)
        else:
            value.copy_(0.1 * draw)
    for name, value in model.named_buffers():
        if name.endswith("running_mean"):
            value.copy_(0.2 * torch.randn(value.shape, generator=generator))
        elif name.endswith("running_var"):
            value.copy_(0.05 + 0.1 * torch.rand(value.shape, generator=generator))


def inputs_of(layer, work):
    """What goes into a linear layer (or a convolution of width 1) while `work` runs, one row a decision."""
    rows = []
    width = layer.weight.shape[1]

    def hook(_, given, __):
        value = given[0].transpose(1, 2) if isinstance(layer, torch.nn.Conv1d) else given[0]
        rows.append(value.reshape(-1, width).clone())

    handle = layer.register_forward_hook(hook)
    work()
    handle.remove()
    return torch.cat(rows)


def logits(layer, rows):
    return rows @ layer.weight.reshape(layer.weight.shape[:2]).T + layer.bias


def gap(values):
    """Largest less second largest, row by row."""
    top = values.topk(2, -1).values
    return top[:, 0] - top[:, 1]


def tune(layer, durations, work, rate=0.45, scale=6.0):
    """Centres the logits and finds the bias of the blank; `work` runs the model and gives (labels, frames)."""
    blank = layer.weight.shape[0] - durations - 1
    layer.bias[blank] = 0  # rows of some path, to centre by
    values = logits(layer, inputs_of(layer, work))
    layer.weight.mul_(scale / values.std(0).mean())
    layer.bias.zero_()
    layer.bias.sub_(logits(layer, inputs_of(layer, work)).mean(0))
    low, high, middle = -10 * scale, 10 * scale, float(layer.bias[blank])
    for _ in range(9):
        layer.bias[blank] = middle + (low + high) / 2
        labels, frames = work()
        low, high = ((low + high) / 2, high) if labels > rate * frames else (low, (low + high) / 2)
    layer.bias[blank] = middle + high


def firm(layer, durations, work):
    """Fits the layer until all its decisions have a margin, without changing any; returns the smallest margin."""
    split = layer.weight.shape[0] - durations
    rows = inputs_of(layer, work)
    parts = [slice(0, split), slice(split, None)] if durations else [slice(0, split)]
    wanted = [logits(layer, rows)[:, part].argmax(-1, keepdim=True) for part in parts]
    with torch.enable_grad():
        weight = layer.weight.detach().reshape(layer.weight.shape[:2]).clone().requires_grad_()
        bias = layer.bias.detach().clone().requires_grad_()
        optimiser = torch.optim.Adam([weight, bias], lr=2e-3)
        for _ in range(2000):
            loss = 0.0
            for part, best in zip(parts, wanted):
                values = rows @ weight[part].T + bias[part]
                rest = values.scatter(-1, best, -1e9).amax(-1)
                loss = loss + torch.relu(2 * MARGIN - (values.gather(-1, best)[:, 0] - rest)).sum()
            if float(loss) == 0:
                break
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    layer.weight.copy_(weight.reshape(layer.weight.shape))
    layer.bias.copy_(bias)
    return margin(layer, durations, work)


def margin(layer, durations, work):
    values = logits(layer, inputs_of(layer, work))
    split = values.shape[-1] - durations
    return min(float(gap(v).min()) for v in (values[:, :split], values[:, split:]) if v.shape[-1])


def good(reference):
    """Are there enough different tokens and texts in it?"""
    for key in ("tokens", "ctc_tokens"):
        lists = [row[key] for row in reference.values() if key in row]
        if lists and (sum(len(set(ids)) >= 3 for ids in lists) < 5 or len(set(sum(lists, []))) < 8):
            return False
    return sum(bool(row.get("text", row.get("ctc_text")).strip()) for row in reference.values()) >= 5


def ids_of(reference):
    return [(row.get("tokens"), row.get("ctc_tokens")) for row in reference.values()]


def write(name, reference):
    rows = (f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in reference.items())
    (HERE / f"{name}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


# --- NeMo -----------------------------------------------------------------------------------------------------------
def nemo_config(width=16, tokenizer=None, ctc=False, transducer=False, durations=(), channels=4, **encoder):
    module = "nemo.collections.asr.modules."
    vocabulary = [] if tokenizer else CHARACTERS
    count = -1 if tokenizer else len(CHARACTERS)
    config = dict(
        sample_rate=16000,
        model_defaults=dict(enc_hidden=width, pred_hidden=width, joint_hidden=width),
        preprocessor=dict(
            _target_=module + "AudioToMelSpectrogramPreprocessor", sample_rate=16000, normalize="per_feature",
            window_size=0.025, window_stride=0.01, window="hann", features=80, n_fft=512, dither=1e-5, pad_to=0,
        ),
        encoder=dict(
            _target_=module + "ConformerEncoder", feat_in=80, feat_out=-1, n_layers=2, d_model=width, n_heads=2,
            subsampling="dw_striding", subsampling_factor=8, subsampling_conv_channels=channels, ff_expansion_factor=1,
            self_attention_model="rel_pos", att_context_size=[-1, -1], xscaling=True, untie_biases=True,
            pos_emb_max_len=5000, conv_kernel_size=5, conv_norm_type="batch_norm", dropout=0.1,
        ) | encoder,
    )
    if tokenizer:
        config["tokenizer"] = tokenizer
    else:
        config["labels"] = vocabulary
    head = dict(_target_=module + "ConvASRDecoder", feat_in=width, num_classes=count, vocabulary=vocabulary)
    if ctc and not transducer:
        config["decoder"] = head
    if transducer:
        config["decoder"] = dict(
            _target_=module + "RNNTDecoder", normalization_mode=None, blank_as_pad=True, vocab_size=count,
            prednet=dict(pred_hidden=width, pred_rnn_layers=1, dropout=0.2),
        )
        config["joint"] = dict(
            _target_=module + "RNNTJoint", log_softmax=None, preserve_memory=False, fuse_loss_wer=False,
            num_classes=count, vocabulary=vocabulary, num_extra_outputs=len(durations),
            jointnet=dict(joint_hidden=width, encoder_hidden=width, pred_hidden=width, activation="relu", dropout=0.2),
        )
        config["decoding"] = dict(strategy="greedy_batch", greedy=dict(max_symbols=10))
        config["loss"] = dict(loss_name="default")
        if durations:
            durations = list(durations)
            config["model_defaults"] |= dict(tdt_durations=durations, num_tdt_durations=len(durations))
            config["decoding"] |= dict(model_type="tdt", durations=durations)
            config["loss"] = dict(loss_name="tdt", tdt_kwargs=dict(durations=durations, sigma=0.02, omega=0.1))
    if ctc and transducer:
        config["aux_ctc"] = dict(ctc_loss_weight=0.3, decoder=head, decoding=dict(strategy="greedy"))
    return config


def nemo_encode(model, noise=0.0):
    generator = torch.Generator().manual_seed(1)
    for samples in AUDIO:
        features, length = model.preprocessor(
            input_signal=torch.from_numpy(samples)[None], length=torch.tensor([len(samples)])
        )
        features = features + noise * torch.randn(features.shape, generator=generator)
        frames, length = model.encoder(audio_signal=features, length=length)
        yield frames[:, :, : int(length)], length


def nemo_reference(model, noise=0.0):
    reference = {}
    for path, (frames, length) in zip(FILES, nemo_encode(model, noise)):
        row = {}
        if hasattr(model, "joint"):
            best = model.decoding.rnnt_decoder_predictions_tensor(
                encoder_output=frames, encoded_lengths=length, return_hypotheses=True
            )[0]
            row["tokens"] = [int(i) for i in best.y_sequence]
            row["text"] = best.text
        if hasattr(model, "ctc_decoder") or not hasattr(model, "joint"):
            decoding = model.ctc_decoding if hasattr(model, "ctc_decoder") else model.decoding
            scores = getattr(model, "ctc_decoder", model.decoder)(encoder_output=frames)
            top, blank = scores[0].argmax(-1).tolist(), scores.shape[-1] - 1
            row["ctc_tokens"] = [i for i, last in zip(top, [blank] + top) if i not in (blank, last)]
            row["ctc_text"] = decoding.ctc_decoder_predictions_tensor(scores, decoder_lengths=length)[0].text
        reference[path.name] = row | dict(encoder_frames=int(length))
    return reference


def nemo_layers(model):
    """(output layer, number of durations, key of its tokens)"""
    if hasattr(model, "joint"):
        yield model.joint.joint_net[-1], model.joint.num_extra_outputs, "tokens"
    if hasattr(model, "ctc_decoder") or not hasattr(model, "joint"):
        yield getattr(model, "ctc_decoder", model.decoder).decoder_layers[0], 0, "ctc_tokens"


def make_nemo(name, kind, config, contexts=(), half=False, refuse=False):
    for seed in range(20):
        torch.manual_seed(seed)
        model = kind(cfg=OmegaConf.create(copy.deepcopy(config)), trainer=None).eval()
        randomise(model, seed)
        model.preprocessor.featurizer.dither = 0.0
        if refuse:
            model.save_to(str(HERE / f"{name}.nemo"))
            return print(name, flush=True)
        contexts = list(contexts) or [None]

        def all_contexts(key=None):
            labels = frames = 0
            for context in contexts:
                if context:
                    model.encoder.set_default_att_context_size(context)
                rows = nemo_reference(model).values()
                labels += sum(len(row[key]) for row in rows)
                frames += sum(row["encoder_frames"] for row in rows)
            return labels, frames

        margins = []
        model = model.half().float() if half else model
        for layer, durations, key in nemo_layers(model):
            work = lambda: all_contexts(key)
            tune(layer, durations, work)
            firm(layer, durations, work)
            model = model.half().float() if half else model
            margins.append(margin(layer, durations, work))
        if contexts[0]:
            model.encoder.set_default_att_context_size(contexts[0])
        path = HERE / f"{name}.nemo"
        model.save_to(str(path))
        if half:
            repack(path)
        model = kind.restore_from(str(path), map_location="cpu").eval().float()
        references = {}
        firmly = min(margins) >= MARGIN / 2
        for context in contexts:
            if context:
                model.encoder.set_default_att_context_size(context)
            reference = references[str(context)] = nemo_reference(model)
            same = all(ids_of(nemo_reference(model, noise)) == ids_of(reference) for noise in (1e-4, 3e-4))
            firmly = firmly and same and good(reference)
        if firmly and len({str(ids_of(r)) for r in references.values()}) == len(references):
            break
        print(name, "seed", seed, "is not good enough", margins, flush=True)
    for context in contexts:
        suffix = "@" + "_".join(map(str, context)) if context and context != contexts[0] else ""
        write(name + suffix, references[str(context)])
    print(name, "seed", seed, "margins", [round(m, 4) for m in margins], path.stat().st_size, flush=True)


def repack(path):
    """A .nemo as some are in the wild: half precision, compressed, member names without `./`."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        weights = Path(folder, "model_weights.ckpt")
        values = torch.load(weights)
        torch.save({k: v.half() if v.is_floating_point() else v for k, v in values.items()}, weights)
        with tarfile.open(path, "w:gz") as archive:
            for member in sorted(Path(folder).iterdir()):
                archive.add(member, arcname=member.name)


# --- Hugging Face ---------------------------------------------------------------------------------------------------
def hf_tokenizer(kind):
    """BPE as transformers' conversion script writes it for the TDT model, Unigram for the others."""
    if kind == "tdt":
        tokenizer = ParakeetConverter("lower/tokenizer.model").converted()
    else:
        words = sentencepiece.SentencePieceProcessor("upper/tokenizer.model")
        size = words.get_piece_size()
        tokenizer = Tokenizer(Unigram([(words.id_to_piece(i), words.get_score(i)) for i in range(size)], unk_id=0))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    size = tokenizer.get_vocab_size()
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    for token in ("<pad>",) if kind == "ctc" else ("<pad>", "<blank>"):
        tokenizer.add_tokens([AddedToken(token, normalized=False, special=True)])
    special = {k: AddedToken(v, normalized=False, special=True) for k, v in SPECIAL.items()}
    tokenizer.add_special_tokens(special)
    return tokenizer, size


SPECIAL = dict(pad_token="<pad>", unk_token="<unk>")
HF = dict(
    ctc=(transformers.ParakeetForCTC, transformers.ParakeetCTCConfig),
    tdt=(transformers.ParakeetForTDT, transformers.ParakeetTDTConfig),
    nemotron=(transformers.NemotronAsrStreamingForRNNT, transformers.NemotronAsrStreamingConfig),
)


def hf_model(kind, seed, width=16):
    tokenizer, size = hf_tokenizer(kind)
    encoder = dict(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=2, intermediate_size=2 * width, conv_kernel_size=5,
        subsampling_conv_channels=4, num_mel_bins=80, scale_input=kind == "ctc", attention_bias=kind != "tdt",
        convolution_bias=kind != "tdt",
    )
    options = dict(vocab_size=size + 1, pad_token_id=size)
    if kind == "nemotron":
        encoder |= dict(sliding_window=9, default_num_lookahead_tokens=3)
        features = transformers.NemotronAsrStreamingFeatureExtractor(feature_size=80)
        processor = transformers.NemotronAsrStreamingProcessor(
            features, tokenizer, supported_num_lookahead_tokens=[3, 1, 0], default_num_lookahead_tokens=3
        )
    else:
        features = transformers.ParakeetFeatureExtractor(feature_size=80)
        processor = transformers.ParakeetProcessor(features, tokenizer, decoder_type=kind)
    if kind != "ctc":
        options = dict(vocab_size=size + 1, pad_token_id=0, blank_token_id=size, decoder_hidden_size=width)
    if kind == "tdt":
        options |= dict(durations=DURATIONS)
    torch.manual_seed(seed)
    model = HF[kind][0](HF[kind][1](encoder_config=encoder, **options)).eval()
    randomise(model, seed)
    if kind != "ctc":
        model.generation_config.decoder_start_token_id = size
    if kind == "tdt":
        model.generation_config.suppress_tokens = [size + 1 + i for i in range(len(DURATIONS))]
    return model, processor


def hf_reference(model, processor, kind, noise=0.0):
    generator = torch.Generator().manual_seed(1)
    reference = {}
    for path, samples in zip(FILES, AUDIO):
        given = processor(samples, sampling_rate=16000)
        features = given["input_features"]
        given["input_features"] = features + noise * torch.randn(features.shape, generator=generator)
        frames = int(model._get_subsampling_output_length(given["attention_mask"].sum(-1))[0])
        out = model.generate(**given)
        ids = (out if torch.is_tensor(out) else out.sequences)[0].tolist()
        text = processor.batch_decode([ids], skip_special_tokens=True)[0]
        if kind == "ctc":
            blank = model.config.pad_token_id
            ids = [i for i, last in zip(ids, [blank] + ids) if i not in (blank, last)]
            row = dict(ctc_tokens=ids, ctc_text=text)
        else:
            row = dict(tokens=[i for i in ids[1:] if i != model.config.blank_token_id], text=text)
        reference[path.name] = row | dict(encoder_frames=frames)
    return reference


def make_hf(name, kind, lookaheads=(None,), **save):
    for seed in range(20):
        model, processor = hf_model(kind, seed)
        layer = model.ctc_head if kind == "ctc" else model.joint.head
        durations = len(DURATIONS) if kind == "tdt" else 0

        def all_lookaheads(model, noise=0.0):
            for lookahead in lookaheads:
                if lookahead is not None:
                    processor.set_num_lookahead_tokens(lookahead)
                yield lookahead, hf_reference(model, processor, kind, noise)

        def work():
            rows = [row for _, reference in all_lookaheads(model) for row in reference.values()]
            return sum(len(r.get("tokens", r.get("ctc_tokens"))) for r in rows), sum(r["encoder_frames"] for r in rows)

        tune(layer, durations, work)
        smallest = firm(layer, durations, work)
        if lookaheads[0] is not None:
            processor.set_num_lookahead_tokens(lookaheads[0])
        folder = HERE / name
        for old in folder.glob("*"):
            old.unlink()
        model.save_pretrained(folder, **save)
        processor.save_pretrained(folder)
        model = HF[kind][0].from_pretrained(folder).eval()
        processor = transformers.AutoProcessor.from_pretrained(folder)
        references = dict(all_lookaheads(model))
        firmly = smallest >= MARGIN / 2 and all(map(good, references.values()))
        firmly = firmly and len({str(ids_of(r)) for r in references.values()}) == len(references)
        for noise in (1e-4, 3e-4):
            noisy = dict(all_lookaheads(model, noise))
            firmly = firmly and all(ids_of(noisy[k]) == ids_of(references[k]) for k in references)
        if firmly:
            break
        print(name, "seed", seed, "is not good enough", smallest, flush=True)
    for lookahead, reference in references.items():
        suffix = f"@{model.config.encoder_config.sliding_window - 1}_{lookahead}" if lookahead != lookaheads[0] else ""
        write(name + suffix, reference)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(name, "seed", seed, "margin", round(smallest, 4), size, flush=True)


# --- the set --------------------------------------------------------------------------------------------------------
def jobs():
    ctc, ctc_bpe = nemo_models.EncDecCTCModel, nemo_models.EncDecCTCModelBPE
    rnnt, rnnt_bpe = nemo_models.EncDecRNNTModel, nemo_models.EncDecRNNTBPEModel
    lower, upper = dict(dir="lower", type="bpe"), dict(dir="upper", type="bpe")
    streaming = nemo_config(
        ctc=True, transducer=True, att_context_size=[[8, 3], [8, 1], [4, 0]], att_context_style="chunked_limited",
        conv_norm_type="layer_norm", conv_context_size="causal", causal_downsampling=True,
    )
    streaming["preprocessor"]["normalize"] = "NA"
    yield "tiny_streaming", make_nemo, nemo_models.EncDecHybridRNNTCTCModel, streaming, [[8, 3], [8, 1], [4, 0]]
    tdt = nemo_config(tokenizer=lower, transducer=True, durations=DURATIONS, use_bias=False, xscaling=False)
    yield "tiny_tdt", make_nemo, rnnt_bpe, tdt
    local = nemo_config(
        transducer=True, self_attention_model="rel_pos_local_attn", att_context_size=[4, 4], global_tokens=2,
        global_tokens_spacing=3, global_attn_separate=True,
    )
    yield "tiny_local", make_nemo, rnnt, local
    agg = nemo_config(tokenizer=dict(type="agg", langs=dict(en=lower, xx=upper)), transducer=True)
    stateless = dict(_target_="nemo.collections.asr.modules.StatelessTransducerDecoder", context_size=2)
    agg["decoder"] |= stateless | dict(normalization_mode="layer")
    yield "tiny_agg", make_nemo, rnnt_bpe, agg
    four = dict(subsampling="striding", subsampling_factor=4)
    yield "tiny_wpe", make_nemo, ctc_bpe, nemo_config(tokenizer=dict(dir="words", type="wpe"), ctc=True, **four)
    yield "tiny_gzip", make_nemo, ctc, nemo_config(ctc=True), (), True
    big = [2, 4, 8]
    multi = nemo_config(transducer=True, n_layers=1)
    multi["joint"]["num_extra_outputs"] = len(big)
    multi["decoding"] |= dict(model_type="multiblank", big_blank_durations=big)
    multi["loss"] = dict(loss_name="multiblank_rnnt", multiblank_rnnt_kwargs=dict(big_blank_durations=big, sigma=0.05))
    yield "refuse_multiblank", make_nemo, rnnt, multi, (), False, True
    hat = nemo_config(transducer=True, n_layers=1)
    hat["joint"]["_target_"] = "nemo.collections.asr.modules.HATJoint"
    yield "refuse_hat", make_nemo, rnnt, hat, (), False, True
    yield "tiny_hf_ctc", lambda name: make_hf(name, "ctc", max_shard_size="30KB")
    yield "tiny_hf_tdt", lambda name: make_hf(name, "tdt")
    yield "tiny_hf_nemotron", lambda name: make_hf(name, "nemotron", lookaheads=(3, 1))


if __name__ == "__main__":
    make_vocabularies()
    for name, make, *arguments in jobs():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, *arguments)
