"""Streams utterances through NeMo and keeps what comes out.

    pip install "nemo_toolkit[asr]==2.7.3"
    python tests/golden/make_streaming.py SHARED

on the CPU in fp32, one utterance at a time, as NeMo's scripts do it:
speech_to_text_cache_aware_streaming_infer.py (CacheAwareStreamingAudioBuffer and
conformer_stream_step) and speech_to_text_streaming_infer_rnnt.py (StreamingBatchedAudioBuffer).
Writes, beside this script:
  data/streaming.json  of each case: the model, its settings, `clip` (a file of datasets/quickstart
                       and how many of its samples), `encoder_frames`, greedy `tokens` and `text` of
                       the transducer, `ctc_tokens` and `ctc_text` of the CTC head; of cases by
                       caches also `sizes`, NeMo's streaming_cfg
  data/streaming.npz   <case>/enc f32 [T, D]; <clip>/mel f32 [80, F + 1], the frame of the last
                       window included
"""

import argparse
import json
from pathlib import Path

import soundfile
import torch
from nemo.collections.asr.models import ASRModel
from nemo.collections.asr.parts.utils.rnnt_utils import batched_hyps_to_hypotheses
from nemo.collections.asr.parts.utils.streaming_utils import (
    CacheAwareStreamingAudioBuffer,
    ContextSize,
    StreamingBatchedAudioBuffer,
)
from nemo.utils import logging
from npz import save_npz
from omegaconf import OmegaConf

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
AUDIO = ROOT / "datasets/quickstart"
TINY = ROOT / "tests/data/checkpoints"

# The clips have 203, 217 and 109 mel frames. With 217, NeMo's stream has a frame more than the whole utterance. With
# 109 and the longest look-ahead, NeMo leaves the last five out.
CLIPS = {"0007": ("1737-146161-0007", None), "0009": ("1737-146161-0009", None),
         "0009_cut": ("1737-146161-0009", 17440)}  # fmt: skip
MEL_CLIP = "0007"
BUFFERED_CLIPS = CLIPS | {"qs20": ("qs20", None)}
BUFFERS = {"short": {"chunk": 0.8, "left": 1.6, "right": 0.4}}
SIZES = [
    "chunk_size", "shift_size", "cache_drop_size", "last_channel_cache_size", "valid_out_len",
    "pre_encode_cache_size", "drop_extra_pre_encoded",
]  # fmt: skip

logging.setLevel(logging.ERROR)
torch.set_num_threads(1)
torch.set_grad_enabled(False)


def load(path):
    model = ASRModel.restore_from(str(path), map_location="cpu").eval().float()
    model.preprocessor.featurizer.dither = 0.0
    model.preprocessor.featurizer.pad_to = 0
    return model


def samples_of(clip):
    name, count = BUFFERED_CLIPS[clip]
    return soundfile.read(str(AUDIO / f"{name}.flac"), dtype="float32")[0][:count]


def about(clip):
    name, count = BUFFERED_CLIPS[clip]
    return {"clip": {"file": f"{name}.flac", "samples": count}}


def heads(model):
    """Returns pairs of a prefix for the results and the name of the head in a hybrid model."""
    if hasattr(model, "ctc_decoder"):
        return [("", "rnnt"), ("ctc_", "ctc")]
    return [("", None)] if hasattr(model, "joint") else [("ctc_", None)]


def greedy(model, head):
    """Makes the model use NeMo's only greedy search that continues from partial hypotheses, utterance by utterance."""
    if head == "ctc":
        model.change_decoding_strategy(decoder_type="ctc")
    elif hasattr(model, "joint"):
        decoding = OmegaConf.create(OmegaConf.to_container(model.cfg.decoding, resolve=True))
        decoding.strategy = "greedy"
        model.change_decoding_strategy(decoding, **({"decoder_type": head} if head else {}))


def collapse(labels, blank):
    return [x for i, x in enumerate(labels) if x != blank and (i == 0 or x != labels[i - 1])]


def by_caches(model, audio):
    """Returns encoder frames [T, D], mel frames, and tokens and text of each head."""
    captured = []
    step = model.encoder.cache_aware_stream_step

    def capture(*args, **kwargs):
        outputs = step(*args, **kwargs)
        captured.append(outputs[0][0, :, : int(outputs[1][0])].T.clone())
        return outputs

    model.encoder.cache_aware_stream_step = capture
    result, mel = {}, None
    for prefix, head in heads(model):
        greedy(model, head)
        captured.clear()
        buffer = CacheAwareStreamingAudioBuffer(model=model)
        mel, _, _ = buffer.append_audio(audio)
        caches = model.encoder.get_initial_cache_state(batch_size=1)
        hypotheses = predictions = None
        for number, (chunk, lengths) in enumerate(buffer):
            predictions, texts, *caches, hypotheses = model.conformer_stream_step(
                processed_signal=chunk,
                processed_signal_length=lengths,
                cache_last_channel=caches[0],
                cache_last_time=caches[1],
                cache_last_channel_len=caches[2],
                keep_all_outputs=buffer.is_buffer_empty(),
                previous_hypotheses=hypotheses,
                previous_pred_out=predictions,
                drop_extra_pre_encoded=(
                    0 if number == 0 else model.encoder.streaming_cfg.drop_extra_pre_encoded
                ),
                return_transcription=True,
            )
        if prefix:
            blank = (model.ctc_decoder if head else model.decoder).num_classes_with_blank - 1
            result[f"{prefix}tokens"] = collapse(predictions[0].tolist(), blank)
        else:
            result["tokens"] = predictions[0].tolist()
        text = texts[0]
        result[f"{prefix}text"] = text if isinstance(text, str) else text.text
    model.encoder.cache_aware_stream_step = step
    frames = torch.cat(captured)
    result["encoder_frames"] = len(frames)
    return frames, mel[0], result


def on_buffers(model, audio, seconds):
    """Returns encoder frames [T, D] of the chunks, and tokens and text of the transducer."""
    decoding = OmegaConf.create(OmegaConf.to_container(model.cfg.decoding, resolve=True))
    decoding.strategy = "greedy_batch"
    decoding.greedy.loop_labels = True
    decoding.greedy.use_cuda_graph_decoder = False
    model.change_decoding_strategy(
        decoding, **({"decoder_type": "rnnt"} if hasattr(model, "ctc_decoder") else {})
    )
    computer = model.decoding.decoding.decoding_computer
    factor, per_second = model.encoder.subsampling_factor, 1 / model.cfg.preprocessor.window_stride
    frame = factor * int(16000 / per_second)
    expected = ContextSize(
        **{name: int(s * per_second / factor) * frame for name, s in seconds.items()}
    )
    buffer = StreamingBatchedAudioBuffer(1, expected, torch.float32, "cpu")
    audio = torch.tensor(audio)[None]
    total = audio.shape[1]
    begin, end = 0, min(expected.chunk + expected.right, total)
    frames, hypotheses, state = [], None, None
    while begin < total:
        last = end >= total
        buffer.add_audio_batch_(
            audio[:, begin:end], torch.tensor([end - begin]), last, torch.tensor([last])
        )
        encoded, _ = model(
            input_signal=buffer.samples, input_signal_length=buffer.context_size_batch.total()
        )
        context = buffer.context_size.subsample(frame)
        chunk = buffer.context_size_batch.subsample(frame).chunk
        encoded = encoded.transpose(1, 2)[:, context.left :]
        frames.append(encoded[0, : int(chunk)])
        new, _, state = computer(x=encoded, out_len=chunk, prev_batched_state=state)
        if hypotheses is None:
            hypotheses = new
        else:
            hypotheses.merge_(new)
        begin, end = end, min(end + expected.chunk, total)
    tokens = batched_hyps_to_hypotheses(hypotheses, None, batch_size=1)[0].y_sequence.tolist()
    frames = torch.cat(frames)
    result = {"encoder_frames": len(frames), "tokens": tokens}
    return frames, result | {"text": model.tokenizer.ids_to_text(tokens)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path, help="the shared folder (holds checkpoints/)")
    shared = parser.parse_args().shared / "checkpoints"
    cases, arrays = {}, {}
    cached = {
        TINY / "tiny_streaming.nemo": [[8, 3], [8, 1], [4, 0]],
        shared / "fastconformer_ctc_streaming.nemo": [[70, 13], [70, 1]],
        shared / "fastconformer_hybrid_streaming.nemo": [[70, 13], [70, 1]],
    }
    for path, contexts in cached.items():
        model = load(path)
        for context in contexts:
            model.encoder.set_default_att_context_size(context)
            sizes = {name: getattr(model.encoder.streaming_cfg, name) for name in SIZES}
            for clip in CLIPS:
                frames, mel, result = by_caches(model, samples_of(clip))
                name = f"{path.stem}@{context[0]}_{context[1]}-{clip}"
                settings = {"model": path.stem, "context": context, "sizes": sizes}
                cases[name] = settings | about(clip) | result
                arrays[f"{name}/enc"] = frames.numpy()
                if clip == MEL_CLIP and path.parent == TINY:
                    arrays[f"{clip}/mel"] = mel.numpy()
    for path in (ROOT / "models/quickstart/quickstart-rnnt.nemo", TINY / "tiny_tdt.nemo"):
        model = load(path)
        for name, seconds in BUFFERS.items():
            for clip in ("qs20", "0009_cut"):
                frames, result = on_buffers(model, samples_of(clip), seconds)
                case = f"{path.stem}@{name}-{clip}"
                cases[case] = {"model": path.stem, "buffer": seconds} | about(clip) | result
                arrays[f"{case}/enc"] = frames.numpy()
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
    (HERE / "data/streaming.json").write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    save_npz(HERE / "data/streaming.npz", arrays)


if __name__ == "__main__":
    main()
