"""Tests live speech and boosted phrases from Python, with the wheel."""

import gc
import random
import re
import subprocess
import time

import numpy
import pytest
from conftest import AUDIO, MODELS, ROOT
from test_boosting import LEXICON, LM
from test_wheel import pytestmark, torch  # noqa: F401

CLIPS = [AUDIO / name for name in ("qs01.flac", "qs07.flac", "1737-146161-0006.flac")]
BUFFER = (1, 5, 1)  # seconds


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def rnnt(request, rtfx_package):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return rtfx_package.load(MODELS / "quickstart-rnnt.nemo", device=request.param)


@pytest.fixture(scope="module")
def clips(rnnt):
    return [rnnt.read_audio(clip) for clip in CLIPS]


def pieces_of(samples, generator, longest=16000):
    """Yields the samples in pieces of random sizes, some of which are empty."""
    while len(samples):
        size = generator.randint(0, longest)
        yield samples[:size]
        samples = samples[size:]


def said(found):
    """Returns all but the score, which depends on the batch size on a GPU."""
    return found.text, found.hypothesis.tokens, found.hypothesis.frames


def in_one_piece(streams, samples, **bias):
    stream = streams.open(**bias)
    stream.push(samples)
    return said(stream.finish())


def test_says_what_the_program_says(rnnt, clips, program):
    streams = rnnt.streams(buffer=BUFFER)
    for clip, samples in zip(CLIPS, clips, strict=True):
        command = [program, "stream", "--model", MODELS / "quickstart-rnnt.nemo", "--device", rnnt.device.type,
                   "--buffer", ",".join(map(str, BUFFER)), "--pause", "0", "--threads", "1", clip]  # fmt: skip
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        stream = streams.open()
        stream.push(samples)
        found = stream.finish()
        assert found.text == shown.strip() != ""
        assert " ".join(word.text for word in found.words) == found.text.strip()


@pytest.mark.parametrize("decoder", ["label_looping", "ctc_greedy", "alsd_pp"])
def test_pieces_and_neighbours_change_nothing(rnnt, clips, decoder):
    streams = rnnt.streams(decoder, max_streams=3, batch_size=2, buffer=BUFFER)
    expected = [in_one_piece(streams, samples) for samples in clips]
    generator = random.Random(decoder)
    waiting = {streams.open(): (i, pieces_of(samples, generator)) for i, samples in enumerate(clips)}
    so_far = {stream: [] for stream in waiting}
    found = {}
    while waiting:
        calling = [stream for stream in waiting if generator.random() < 0.7]
        call = {stream: next(waiting[stream][1], None) for stream in calling}
        for stream in [stream for stream, piece in call.items() if piece is None]:
            found[waiting.pop(stream)[0]] = said(stream.finish())
            call.pop(stream)
        for stream, partial in streams.push(call).items():
            tokens = partial.hypothesis.tokens
            kept = so_far[stream]
            assert tokens[: len(kept)] == kept and partial.text == str(partial)
            assert partial.text.startswith(partial.stable_text)
            so_far[stream] = tokens[: partial.stable]
    assert [found[i] for i in range(3)] == expected
    assert any(so_far.values())
    assert all(kept == expected[i][1][: len(kept)] for i, kept in enumerate(so_far.values()))


def test_lists_and_arrays_are_pieces_and_decoding_goes_on_beside(rnnt, clips):
    streams = rnnt.streams(max_streams=1, buffer=BUFFER)
    expected = in_one_piece(streams, clips[0])
    stream = streams.open()
    stream.push(clips[0][:20000].numpy().astype(numpy.float64))
    whole = streams.decoder(*rnnt.encode(clips[:2]))
    stream.push(clips[0][20000:].tolist())
    assert whole.texts == streams.decoder(*rnnt.encode(clips[:2])).texts
    assert said(stream.finish()) == expected


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "fp32"), ("cuda", "fp32"), ("cuda", "bf16")])
def test_by_caches(rtfx_package, device, dtype):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    model = rtfx_package.load(ROOT / "tests/data/checkpoints/tiny_streaming.nemo", device, dtype)
    samples = 0.1 * torch.randn(48000, generator=torch.Generator().manual_seed(1))
    (whole,) = model.transcribe(samples, decoder="ctc_greedy")
    streams = model.streams("ctc_greedy", max_streams=2)
    assert streams.notices == [] and 0 < streams.look_ahead_seconds < streams.chunk_seconds
    expected = in_one_piece(streams, samples)
    stream, beside = streams.open(), streams.open()
    for piece in pieces_of(samples, random.Random(1), longest=5000):
        streams.push({stream: piece, beside: piece.flip(0)})
    assert said(stream.finish()) == expected and expected[1]
    if device == "cpu":  # on a GPU, random weights have near ties
        assert expected == said(whole)
    assert model.transcribe(samples, decoder="ctc_greedy") == [whole]


@pytest.mark.parametrize("by_caches", [False, True])
def test_few_callers_are_computed_with_fewer_rows(rtfx_package, rnnt, clips, by_caches):
    model, most, options = rnnt, 6, {"buffer": BUFFER}
    if by_caches:
        if rnnt.device.type != "cpu":
            pytest.skip("random weights have near ties there")
        model, most, options = rtfx_package.load(ROOT / "tests/data/checkpoints/tiny_streaming.nemo", "cpu"), 64, {}
    short = [clip[:40000] for clip in clips]

    def alone(fewer_rows):
        """Returns streams, their result for each clip alone, and the CPU seconds that these took."""
        streams = model.streams("ctc_greedy", max_streams=most, fewer_rows=fewer_rows, **options)
        begin = time.process_time()
        found = [in_one_piece(streams, clip) for clip in short]
        return streams, found, time.process_time() - begin

    _, expected, work = alone([])
    streams, found, less = alone([3, 1])
    assert found == expected and any(tokens for _, tokens, _ in found)
    if model.device.type == "cpu":
        assert less < work / 2
    for count in (2, 5):
        opened = [streams.open() for _ in range(count)]
        streams.push({stream: short[i % 3] for i, stream in enumerate(opened)})
        assert [said(stream.finish()) for stream in opened] == [expected[i % 3] for i in range(count)]


def test_buffers_are_a_notice(rnnt):
    streams = rnnt.streams()
    assert streams.notices == [n for n in streams.notices if "on buffers of 2 s, with 10 s before and 2 s behind" in n]
    assert streams.notices and rnnt.streams(buffer=BUFFER).notices == []
    assert streams.chunk_seconds == pytest.approx(2, abs=rnnt.frame_seconds)


@pytest.mark.parametrize("decoder", ["label_looping", "alsd_pp", "ctc_greedy"])
def test_frames_of_an_encoder(rtfx_package, rnnt, decoder):
    frames, lengths = rnnt.encode(CLIPS)
    search = rtfx_package.decoder(decoder, rnnt)
    streams = search.streams(batch_size=2, max_frames=7)

    def rows(step):
        for i, stream in enumerate(opened):
            piece = frames[i, first : min(first + step, int(lengths[i]))]
            if len(piece):
                yield stream, piece

    results = []
    for step in (5, 16, frames.shape[1]):
        opened = [streams.open() for _ in CLIPS]
        for first in range(0, frames.shape[1], step):
            partials = streams.push(dict(rows(step)))
        assert all(partial.text for partial in partials.values())
        results.append([streams.finish(stream).tokens for stream in opened])
    assert results[0] == results[1] == results[2] == [row.tokens for row in search(frames, lengths)]


def test_phrases_of_a_call_of_all_and_of_one_stream(rtfx_package, rnnt, clips):
    boost = {"phrases": ["knit"], "scale": 9}
    (plain,), (boosted,) = rnnt.transcribe(clips[0]), rnnt.transcribe(clips[0], boost=boost)
    assert plain.text != boosted.text and "knit" in boosted.text
    decoder = rtfx_package.decoder("label_looping", rnnt, boost=boost)
    assert rnnt.transcribe(clips[0], decoder=decoder) == [boosted]
    (other,) = rnnt.transcribe(clips[0], allowed=["U+0061-U+006D"])
    assert not re.search("[n-z]", other.text)

    every = in_one_piece(rnnt.streams(max_streams=2, buffer=BUFFER, boost=boost), clips[0])
    assert "knit" in every[0]
    streams = rnnt.streams(max_streams=2, buffer=BUFFER, boost={"scale": 9})
    own, none = streams.open(boost="knit"), streams.open()
    streams.push({own: clips[0], none: clips[0]})
    assert said(own.finish()) == every
    assert said(none.finish()) == in_one_piece(rnnt.streams(max_streams=2, buffer=BUFFER), clips[0])
    for same in ({"phrase": "knit", "weight": 1}, ["knit"], ("knit", "knit")):  # the default weight is 1
        assert in_one_piece(streams, clips[0], boost=same) == every
    assert not re.search("[n-z]", in_one_piece(streams, clips[0], allowed=["U+0061-U+006D"])[0])


def test_a_word_graph_takes_the_boost_of_a_stream_and_more_words(rtfx, rnnt, tmp_path):
    for name, text in {"lexicon": LEXICON, "lm": LM}.items():
        (tmp_path / name).write_text(text)
    graph = tmp_path / "words.tlg"
    assert rtfx("graph", "build", "--tokenizer", MODELS / "quickstart-rnnt.nemo", "--lexicon", tmp_path / "lexicon",
                "--lm", tmp_path / "lm", "--output", graph).returncode == 0
    samples = rnnt.read_audio(AUDIO / "1737-146161-0007.flac")  # says "knit two together twice"
    options = {"decoder": "ctc_wfst_cpu", "graph": str(graph), "beam": 100}
    streams = rnnt.streams(max_streams=2, **options)
    own, none = streams.open(boost={"phrase": "knit", "weight": 32}), streams.open()
    streams.push({own: samples, none: samples})
    boosted, plain = own.finish().words, none.finish().words
    assert "knit" in [word.text for word in boosted] and "knit" not in [word.text for word in plain]
    # The added word has no cost and is spelled with the token of "let".
    more = {"phrases": [{"phrase": "strick", "cost": 0, "tokens": ["▁let"]}]}
    stream = rnnt.streams(words=more, **options).open()
    stream.push(samples)
    assert [word.text for word in stream.finish().words] == [word.text.replace("let", "strick") for word in plain]


def test_places_are_given_back(rtfx_package, rnnt, clips):
    streams = rnnt.streams(buffer=BUFFER)
    expected = in_one_piece(streams, clips[0])
    stream = streams.open()
    with pytest.raises(rtfx_package.InputError, match="all 1 streams are open; "):
        streams.open()
    stream.push(clips[1])
    stream.close()
    stream.close()
    left = streams.open()
    left.push(clips[1])
    del left
    gc.collect()
    last = streams.open()
    last.push(clips[0])
    del streams  # the stream keeps them alive
    assert said(last.finish()) == expected


def test_nothing_said_is_no_text(rnnt):
    streams = rnnt.streams(buffer=BUFFER)
    assert streams.push({}) == {}
    stream = streams.open()
    assert stream.push([]).text == "" and stream.push(torch.zeros(0)).stable == 0
    assert stream.finish().text == ""


def of(stream):
    """Returns the model of a stream."""
    return stream._streams.decoder._model


def wrong(samples):
    samples = samples.clone()
    samples[100] = float("nan")
    return samples


ERRORS = {
    "samples behind the end": (lambda s, x: (s.finish(), s.push(x)), "is not open; "),
    "finished twice": (lambda s, x: (s.finish(), s.finish()), "is not open; "),
    "closed": (lambda s, x: (s.close(), s.push(x)), "is not open; "),
    "integers": (lambda s, x: s.push((x * 32767).short()), "audio: torch.int16"),
    "two channels": (lambda s, x: s.push(x.view(2, -1)), "mono samples"),
    "a file": (lambda s, x: s.push("a.wav"), "audio: str; "),
    "NaN": (lambda s, x: s.push(wrong(x)), "sample 100 is NaN"),
    "of others": (lambda s, x: of(s).streams().push({s: x}), "is none of these; "),
    "a number": (lambda s, x: s._streams.push({0: x}), "stream: 0 is none of these; "),
    "a phrase that is none": (lambda s, x: s._streams.open(boost=[" "]), "the phrase is empty"),
    "a weight that is none": (lambda s, x: s._streams.open(boost={"phrase": "a", "weight": -1}), "weight of 'a' is -1"),
    "options for phrases": (lambda s, x: s._streams.open(boost={"phrases": ["a"]}), "unknown key 'phrases'"),
    "a script of no token": (lambda s, x: s._streams.open(allowed=["cyrillic"]), "has an allowed letter; "),
    "no streams": (lambda s, x: of(s).streams("null"), "null: takes no utterances in pieces; "),
    "no streams of frames": (lambda s, x: of(s)._decoder("null", {}).streams(), "takes no utterances in pieces"),
    "no phrases": (lambda s, x: of(s).streams("null", boost={}), "boost"),
    "options beside a decoder": (lambda s, x: of(s).transcribe(x, decoder=s._streams.decoder, window=3), "window: "),
    "max_streams": (lambda s, x: of(s).streams(max_streams=0), "0 streams"),
    "batch_size": (lambda s, x: of(s).streams(max_streams=1, batch_size=2), "2 rows for 1 streams"),
    "fewer rows": (lambda s, x: of(s).streams(max_streams=4, batch_size=3, fewer_rows=[1, 3]), "fewer rows: 3, of 3; "
                   "give numbers from 1 to 2"),
    "no rows": (lambda s, x: of(s).streams(max_streams=4, fewer_rows=[0]), "fewer rows: 0, of 4; "),
    "fewer than one": (lambda s, x: of(s).streams(fewer_rows=[1]), "fewer rows: 1, of 1; leave them out"),
    "fewer rows, no list": (lambda s, x: of(s).streams(max_streams=4, fewer_rows=2), "fewer_rows: 2; give integers"),
    "half a row": (lambda s, x: of(s).streams(max_streams=4, fewer_rows=[0.5]), "fewer_rows: [0.5]; give integers"),
    "buffer": (lambda s, x: of(s).streams(buffer=(1, 2)), "buffer: 2 numbers"),
    "no chunk": (lambda s, x: of(s).streams(buffer=(0, 2, 1)), "is no encoder frame"),
}  # fmt: skip


@pytest.mark.parametrize("what", ERRORS)
def test_bad_input_is_an_exception_with_a_remedy(rtfx_package, rnnt, clips, what):
    work, text = ERRORS[what]
    stream = rnnt.streams(max_streams=2, buffer=BUFFER).open()
    with pytest.raises(rtfx_package.InputError, match=re.escape(text)):
        work(stream, clips[0][:16000])


def test_bad_samples_of_one_stream_change_none(rtfx_package, rnnt, clips):
    streams = rnnt.streams(max_streams=2, buffer=BUFFER)
    expected = in_one_piece(streams, clips[0])
    good, bad = streams.open(), streams.open()
    with pytest.raises(rtfx_package.InputError, match=f"stream {bad.number}: "):
        streams.push({good: clips[0], bad: wrong(clips[1])})
    streams.push({good: clips[0], bad: clips[0]})
    assert said(good.finish()) == said(bad.finish()) == expected


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        (torch.zeros(4), "give a tensor [T, D]"),
        (numpy.zeros((4, 144), "float32"), "give a tensor [T, D]"),
        (torch.zeros(4, 7), "frames: 7 wide"),
        (torch.zeros(4, 144).half(), "frames: Half"),
    ],
)
def test_bad_frames(rtfx_package, rnnt, piece, text):
    stream = rtfx_package.decoder("label_looping", rnnt).streams().open()
    piece = piece.to(rnnt.device) if isinstance(piece, torch.Tensor) else piece
    with pytest.raises(rtfx_package.InputError, match=re.escape(text)):
        stream.push(piece)
    with pytest.raises(rtfx_package.Error, match="NaN in the emissions"):
        stream.push(torch.full((4, 144), float("nan"), device=rnnt.device))
