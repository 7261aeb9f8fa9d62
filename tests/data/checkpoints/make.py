#!/usr/bin/env python3
"""Makes the tiny checkpoints of this folder, and their references, again.

    pip install "nemo_toolkit[asr]==3.0.0" transformers==5.23.0 soundfile  # tiny_hf_prompt: transformers==5.24.0
    python tests/data/checkpoints/make.py [NAME...]

All weights are random. Two changes follow, so that no reference depends on the last bit of a sum. First, the output
layer is centred, and blank gets a bias that makes it neither rare nor too frequent. Then the output layer is fitted
until the greedy decisions have a margin. A model counts only if its tokens stay the same when noise is added to its
features. If not, the next seed is tried. """
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORK = tempfile.TemporaryDirectory()
sys.path.insert(0, str(HERE))
os.chdir(WORK.name)  # checkpoints hold the names of their tokenizer folders, which stay relative

import sentencepiece
import soundfile
import torch
import transformers
from nemo.collections.asr import models as nemo
from nemo.utils import logging
from omegaconf import OmegaConf
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import Unigram
from transformers.convert_slow_tokenizer import ParakeetConverter
from weights import fault_of, fit, randomise, tune

logging.setLevel(logging.ERROR)
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.set_grad_enabled(False)

FILES = sorted((ROOT / "datasets/quickstart").glob("*.flac"))[:6]
AUDIO = [soundfile.read(str(path), dtype="float32")[0] for path in FILES]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DURATIONS = [0, 1, 2, 3, 4]
MODULES = "nemo.collections.asr.modules."
PROMPTS = {"en-US": 0, "en": 0, "de-DE": 1, "auto": 3}  # names of some of the 5 prompts


def make_vocabularies():
    """Makes the folders `lower` (BPE), `upper` and `tags` (unigram), and `words` (WordPiece)."""
    lines = (ROOT / "datasets/quickstart/manifest.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    unigram = dict(
        model_type="unigram", bos_id=-1, eos_id=-1, normalization_rule_name="identity",
        hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )
    train = sentencepiece.SentencePieceTrainer.train
    train(sentence_iterator=iter([text.upper() for text in texts]), model_prefix="upper", vocab_size=60, **unigram)
    train(sentence_iterator=iter(texts), model_prefix="tags", vocab_size=34,
          user_defined_symbols=["<en-US>", "<de-DE>"], **unigram)  # fmt: skip
    models = dict(lower=ROOT / "tests/data/pieces.model", upper="upper.model", tags="tags.model")
    for name, model in models.items():
        Path(name).mkdir()
        Path(name, "tokenizer.model").write_bytes(Path(model).read_bytes())
        pieces = pieces_of(name)
        plain = [p[1:] if p[0] == "▁" else "##" + p for p, _ in pieces[1:]]
        Path(name, "vocab.txt").write_text("\n".join(plain) + "\n", encoding="utf-8")
        table = "".join(f"{piece}\t{score:g}\n" for piece, score in pieces)
        Path(name, "tokenizer.vocab").write_text(table, encoding="utf-8")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, "the", ",", "?"]
    words += [*("##" + letter for letter in LETTERS), "##ing", "##ed"]
    # NeMo asks the hub for bert-base-cased with any vocabulary, so a folder of this name takes its place.
    for name in ("words", "bert-base-cased"):
        Path(name).mkdir()
        Path(name, "vocab.txt").write_text("\n".join(words) + "\n")
    Path("bert-base-cased/config.json").write_text('{"model_type": "bert"}')
    Path("bert-base-cased/tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


def pieces_of(name):
    model = sentencepiece.SentencePieceProcessor(f"{name}/tokenizer.model")
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]


def finish(name, first_seed, build):
    """Makes a model and its references with the first seed that serves.

    `build` saves the model. It returns the margin of its decisions, and a function that computes {suffix: references}
    with noise of a given size."""
    for seed in range(first_seed, first_seed + 30):
        margin, refer = build(HERE / name, seed)
        references = refer(0.0)
        fault = fault_of(references, margin, [refer(1e-4), refer(3e-4)])
        if not fault:
            break
        print(name, "seed", seed, "does not serve:", fault, flush=True)
    for suffix, reference in references.items():
        text = json.dumps(reference, ensure_ascii=False).replace("}, ", "},\n") + "\n"
        (HERE / f"{name}{suffix}.json").write_text(text, encoding="utf-8")
    print(name, "seed", seed, "margin", round(margin, 3), flush=True)


def nemo_config(width=8, tokenizer=None, ctc=False, durations=None, **encoder):
    """Returns the configuration of a transducer with characters, unless other options are given."""
    joint = width if tokenizer else 2 * width
    vocabulary = dict(vocabulary=[] if tokenizer else list(" '" + LETTERS))
    count = len(vocabulary["vocabulary"]) or -1
    vocabulary["num_classes"] = count
    head = dict(_target_=MODULES + "ConvASRDecoder", feat_in=width, **vocabulary)
    config = dict(
        sample_rate=16000,
        model_defaults=dict(enc_hidden=width, pred_hidden=width, joint_hidden=joint),
        preprocessor=dict(
            _target_=MODULES + "AudioToMelSpectrogramPreprocessor", sample_rate=16000, features=80,
            normalize="per_feature", window_size=0.025, window_stride=0.01, n_fft=512, pad_to=0,
        ),
        encoder=dict(
            _target_=MODULES + "ConformerEncoder", feat_in=80, n_layers=2, d_model=width, n_heads=2,
            subsampling="dw_striding", subsampling_factor=8, subsampling_conv_channels=4,
            ff_expansion_factor=2, conv_kernel_size=5,
        ) | encoder,
    )
    config |= dict(tokenizer=tokenizer) if tokenizer else dict(labels=vocabulary["vocabulary"])
    if ctc == "only":
        return config | dict(decoder=head)
    if ctc:
        config["aux_ctc"] = dict(decoder=head, decoding=dict(strategy="greedy"))
    hidden = dict(pred_hidden=width, dropout=0.2)
    config["decoder"] = dict(
        _target_=MODULES + "RNNTDecoder", blank_as_pad=True, vocab_size=count,
        prednet=hidden | dict(pred_rnn_layers=1), normalization_mode=None,
    )
    config["joint"] = dict(
        _target_=MODULES + "RNNTJoint", **vocabulary, num_extra_outputs=len(durations or []),
        jointnet=hidden | dict(joint_hidden=joint, encoder_hidden=width, activation="relu"),
    )
    config["decoding"] = dict(strategy="greedy_batch", greedy=dict(max_symbols=2))
    config["loss"] = dict(loss_name="default")
    if durations:
        config["model_defaults"] |= dict(tdt_durations=durations, num_tdt_durations=len(durations))
        config["decoding"] |= dict(model_type="tdt", durations=durations)
        config["loss"] = dict(loss_name="tdt", tdt_kwargs=dict(durations=durations, sigma=0.02))
    return config


def encoded(model, features, length, language):
    if not hasattr(model, "prompt_kernel"):
        return model.encoder(audio_signal=features, length=length)
    prompt = torch.tensor([PROMPTS[language or "auto"]])  # the default of transcribe()
    return model(processed_signal=features, processed_signal_length=length, prompt_indices=prompt)


def nemo_reference(model, noise=0.0, keys=("tokens", "ctc_tokens"), language=None):
    generator = torch.Generator().manual_seed(1)
    ctc = getattr(model, "ctc_decoder", None if hasattr(model, "joint") else model.decoder)
    reference = {}
    for path, samples in zip(FILES, AUDIO):
        features, length = model.preprocessor(
            input_signal=torch.from_numpy(samples)[None], length=torch.tensor([len(samples)])
        )
        features = features + noise * torch.randn(features.shape, generator=generator)
        frames, length = encoded(model, features, length, language)
        frames, row = frames[:, :, : int(length)], {}
        if hasattr(model, "joint") and "tokens" in keys:
            best = model.decoding.rnnt_decoder_predictions_tensor(frames, length, True)[0]
            row |= dict(tokens=[int(i) for i in best.y_sequence], text=best.text)
        if ctc and "ctc_tokens" in keys:
            scores = ctc(encoder_output=frames)
            decoding = model.ctc_decoding if hasattr(model, "joint") else model.decoding
            text = decoding.ctc_decoder_predictions_tensor(scores, decoder_lengths=length)[0].text
            row |= dict(ctc_tokens=collapse(scores[0].argmax(-1).tolist(), scores.shape[-1] - 1))
            row |= dict(ctc_text=text)
        reference[path.name] = row | dict(encoder_frames=int(length))
    return reference


def collapse(ids, blank):
    return [i for i, last in zip(ids, [blank] + ids) if i not in (blank, last)]


def random_nemo(kind, config, seed):
    torch.manual_seed(seed)
    model = kind(cfg=OmegaConf.create(config), trainer=None).eval()
    randomise(model, seed)
    model.preprocessor.featurizer.dither = 0.0
    return model


def build_nemo(path, seed, kind, config, contexts=(None,), half=False, languages=(None,)):
    model = random_nemo(kind, config, seed)
    model = model.half().float() if half else model
    path = path.with_suffix(".nemo")

    def each_context(model, *arguments, contexts=contexts):
        for context in contexts:
            if context:
                model.encoder.set_default_att_context_size(context)
            suffix = "" if context == contexts[0] else "@" + "_".join(map(str, context))
            for language in languages:
                name = suffix + (f"~{language}" if language else "")
                yield name, nemo_reference(model, *arguments, language=language)

    big_blanks = len(config.get("decoding", {}).get("big_blank_durations", []))

    def finish_layer(layer, durations, key):
        def run(contexts=contexts):
            references = dict(each_context(model, 0.0, [key], contexts=contexts))
            rows = [row for reference in references.values() for row in reference.values()]
            return sum(len(r[key]) for r in rows), sum(r["encoder_frames"] for r in rows)

        tune(layer, durations, lambda: run(contexts[:1]), big_blanks)
        return fit(layer, durations, run, half)

    margin = []
    if hasattr(model, "joint"):
        extra = model.joint.num_extra_outputs - big_blanks
        margin.append(finish_layer(model.joint.joint_net[-1], extra, "tokens"))
    ctc = getattr(model, "ctc_decoder", None if hasattr(model, "joint") else model.decoder)
    if ctc:
        margin.append(finish_layer(ctc.decoder_layers[0], 0, "ctc_tokens"))
    list(each_context(model, contexts=contexts[:1]))
    model.save_to(str(path))
    if half:
        repack(path)
    restored = kind.restore_from(str(path), map_location="cpu").eval().float()
    return min(margin), lambda noise: dict(each_context(restored, noise))


def repack(path):
    """Repacks a .nemo file in half precision, compressed, and with member names without `./`. Some published files have
    this form."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        weights = Path(folder, "model_weights.ckpt")
        values = torch.load(weights)
        values = {k: v.half() if v.is_floating_point() else v for k, v in values.items()}
        torch.save(type(torch.load(weights))(values), weights)
        with tarfile.open(path, "w:gz") as archive:
            for member in sorted(Path(folder).iterdir()):
                archive.add(member, arcname=member.name)


def hf_parts(kind, width=16, prompts=False):
    """Returns a model and its processor. For TDT, the tokenizer is BPE, like the conversion script of transformers
    writes it."""
    if kind == "tdt":
        tokenizer = ParakeetConverter("lower/tokenizer.model").converted()
    else:
        tokenizer = Tokenizer(Unigram(pieces_of("upper"), unk_id=0))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    size = tokenizer.get_vocab_size()
    special = lambda text: AddedToken(text, normalized=False, special=True)
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=tokenizer)
    tokenizer.add_tokens([special("<pad>")] + [special("<blank>")] * (kind != "ctc"))
    tokenizer.add_special_tokens(dict(pad_token=special("<pad>"), unk_token=special("<unk>")))
    encoder = dict(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=2, intermediate_size=2 * width,
        conv_kernel_size=5, subsampling_conv_channels=4, num_mel_bins=80,
        scale_input=kind == "ctc", attention_bias=kind != "tdt", convolution_bias=kind != "tdt",
    )
    options = dict(vocab_size=size + 1, pad_token_id=size)
    if kind != "ctc":
        options |= dict(pad_token_id=0, blank_token_id=size, decoder_hidden_size=width)
        options |= dict(max_symbols_per_step=2)
    if kind == "nemotron":
        encoder |= dict(sliding_window=9, default_num_lookahead_tokens=3)
        features = transformers.NemotronAsrStreamingFeatureExtractor(feature_size=80)
        looks = dict(supported_num_lookahead_tokens=[3, 1, 0], default_num_lookahead_tokens=3)
        if prompts:
            options |= dict(num_prompts=5, prompt_intermediate_size=24, default_prompt_id=PROMPTS["auto"])
            config = transformers.Nemotron3_5AsrConfig(encoder_config=encoder, **options)
            looks |= dict(num_prompts=5, prompt_dictionary=PROMPTS)
            processor = transformers.Nemotron3_5AsrProcessor(features, tokenizer, **looks)
            return transformers.Nemotron3_5AsrForRNNT(config), processor
        config = transformers.NemotronAsrStreamingConfig(encoder_config=encoder, **options)
        processor = transformers.NemotronAsrStreamingProcessor(features, tokenizer, **looks)
        return transformers.NemotronAsrStreamingForRNNT(config), processor
    features = transformers.ParakeetFeatureExtractor(feature_size=80)
    processor = transformers.ParakeetProcessor(features, tokenizer, decoder_type=kind)
    if kind == "ctc":
        config = transformers.ParakeetCTCConfig(encoder_config=encoder, **options)
        return transformers.ParakeetForCTC(config), processor
    config = transformers.ParakeetTDTConfig(encoder_config=encoder, durations=DURATIONS, **options)
    model = transformers.ParakeetForTDT(config)
    model.generation_config.suppress_tokens = [size + 1 + i for i in range(len(DURATIONS))]
    return model, processor


def hf_reference(model, processor, noise=0.0, language=None):
    generator = torch.Generator().manual_seed(1)
    reference = {}
    for path, samples in zip(FILES, AUDIO):
        given = processor(samples, sampling_rate=16000, **(dict(language=language) if language else {}))
        draw = torch.randn(given["input_features"].shape, generator=generator)
        given["input_features"] = given["input_features"] + noise * draw
        lengths = given["attention_mask"].sum(-1)
        out = model.generate(**given)
        ids = (out if torch.is_tensor(out) else out.sequences)[0].tolist()
        text = processor.batch_decode([ids], skip_special_tokens=True)[0]
        if hasattr(model, "ctc_head"):
            row = dict(ctc_tokens=collapse(ids, model.config.pad_token_id), ctc_text=text)
        else:  # the first token only starts the prediction network
            row = dict(tokens=[i for i in ids[1:] if i != model.config.blank_token_id], text=text)
        frames = int(model._get_subsampling_output_length(lengths)[0])
        reference[path.name] = row | dict(encoder_frames=frames)
    return reference


def build_hf(path, seed, kind, lookaheads=(None,), languages=(None,), **save):
    torch.manual_seed(seed)
    model, processor = hf_parts(kind, prompts=len(languages) > 1)
    randomise(model.eval(), seed)
    if hasattr(model, "prompt_projector"):  # with larger weights, a language may give no text
        model.prompt_projector.linear_1.weight[:, -model.config.num_prompts :] *= 0.3
    if kind != "ctc":
        model.generation_config.decoder_start_token_id = model.config.blank_token_id

    def each_lookahead(model, processor, noise=0.0):
        for lookahead in lookaheads:
            if lookahead is not None:
                processor.set_num_lookahead_tokens(lookahead)
            suffix = "" if lookahead == lookaheads[0] else f"@8_{lookahead}"
            for language in languages:
                name = suffix + (f"~{language}" if language else "")
                yield name, hf_reference(model, processor, noise, language)

    def run():
        rows = [r for _, v in each_lookahead(model, processor) for r in v.values()]
        labels = sum(len(r.get("tokens", r.get("ctc_tokens"))) for r in rows)
        return labels, sum(r["encoder_frames"] for r in rows)

    layer = model.ctc_head if kind == "ctc" else model.joint.head
    durations = len(DURATIONS) if kind == "tdt" else 0
    tune(layer, durations, run)
    margin = fit(layer, durations, run)
    if lookaheads[0] is not None:
        processor.set_num_lookahead_tokens(lookaheads[0])
    model.save_pretrained(path, **save)
    processor.save_pretrained(path)
    model = type(model).from_pretrained(path).eval()
    processor = transformers.AutoProcessor.from_pretrained(path)
    return margin, lambda noise: dict(each_lookahead(model, processor, noise))


def cases():
    """Yields the name, the first seed to try (None if the model is only saved), the function that builds it, and the
    arguments of that function."""
    lower, upper = dict(dir="lower", type="bpe"), dict(dir="upper", type="bpe")
    contexts = [[8, 3], [8, 1], [4, 0]]
    streaming = nemo_config(
        ctc=True, att_context_size=contexts, att_context_style="chunked_limited",
        conv_norm_type="layer_norm", conv_context_size="causal", causal_downsampling=True,
    )
    streaming["preprocessor"]["normalize"] = "NA"
    yield "tiny_streaming", 0, build_nemo, nemo.EncDecHybridRNNTCTCModel, streaming, contexts
    tdt = nemo_config(tokenizer=lower, durations=DURATIONS, use_bias=False, xscaling=False)
    yield "tiny_tdt", 1, build_nemo, nemo.EncDecRNNTBPEModel, tdt
    local = nemo_config(
        self_attention_model="rel_pos_local_attn", att_context_size=[4, 4], global_tokens=2,
        global_tokens_spacing=3, global_attn_separate=True,
    )
    yield "tiny_local", 0, build_nemo, nemo.EncDecRNNTModel, local
    both = dict(type="agg", langs=dict(en=lower, xx=upper))
    agg = nemo_config(tokenizer=both, use_bias=False)
    agg["decoder"] |= dict(_target_=MODULES + "StatelessTransducerDecoder", context_size=2)
    agg["decoder"] |= dict(normalization_mode="layer")
    del agg["decoder"]["blank_as_pad"]
    yield "tiny_agg", 3, build_nemo, nemo.EncDecRNNTBPEModel, agg
    words, four = dict(dir="words", type="wpe"), dict(subsampling="striding", subsampling_factor=4)
    wpe = nemo_config(tokenizer=words, ctc="only", **four)
    yield "tiny_wpe", 0, build_nemo, nemo.EncDecCTCModelBPE, wpe
    plain = nemo_config(width=16, ctc="only")
    yield "tiny_gzip", 0, build_nemo, nemo.EncDecCTCModel, plain, (None,), True
    yield "tiny_hf_ctc", 4, lambda path, seed: build_hf(path, seed, "ctc", max_shard_size="30KB")
    yield "tiny_hf_tdt", 0, build_hf, "tdt"
    yield "tiny_hf_nemotron", 0, build_hf, "nemotron", (3, 1)
    languages = (None, "de-DE", "en-US")
    prompted = nemo_config(
        tokenizer=dict(dir="tags", type="bpe"), att_context_size=[8, 3],
        att_context_style="chunked_limited", conv_norm_type="layer_norm",
        conv_context_size="causal", causal_downsampling=True,
    )
    prompted["preprocessor"]["normalize"] = "NA"
    prompted["decoding"]["strip_lang_tags"] = True
    prompted["model_defaults"] |= dict(
        initialize_prompt_feature=True, num_prompts=5, prompt_dictionary=PROMPTS
    )
    yield ("tiny_prompt", 0, build_nemo, nemo.EncDecRNNTBPEModelWithPrompt, prompted, (None,), False,
           languages)  # fmt: skip
    yield "tiny_hf_prompt", 0, build_hf, "nemotron", (3,), languages[:2]
    big = dict(big_blank_durations=[2, 4, 8])
    multi = nemo_config()
    multi["joint"]["num_extra_outputs"] = 3
    multi["decoding"] |= dict(model_type="multiblank") | big
    multi["loss"] = dict(loss_name="multiblank_rnnt", multiblank_rnnt_kwargs=big | dict(sigma=0.05))
    yield "tiny_multiblank", 0, build_nemo, nemo.EncDecRNNTModel, multi
    hat = nemo_config(n_layers=1)
    hat["joint"]["_target_"] = MODULES + "HATJoint"
    yield "refuse_hat", None, random_nemo, nemo.EncDecRNNTModel, hat


if __name__ == "__main__":
    make_vocabularies()
    for name, seed, build, *options in cases():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        if seed is None:
            build(*options, 0).save_to(str(HERE / f"{name}.nemo"))
        else:
            finish(name, seed, lambda path, seed: build(path, seed, *options))
