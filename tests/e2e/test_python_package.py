"""The Python package of the tree, with the built librtfx: faults of the caller are errors, never crashes."""

import json
import os
import subprocess
import sys

import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT

LIBRARY = PROGRAM.with_name("librtfx.so")
pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="no librtfx.so: `make build` makes it")
CLIPS = [str(AUDIO / name) for name in ("qs01.flac", "1737-146161-0006.flac")]

# Each runs in the process of the fixture below, and stays alive or takes the others with it.
REFUSED = {
    "no_clips": ("m.encode([])", "audio: no clips"),
    "no_rows": ("d(frames[:0], [])", "frames: a batch of 0 rows"),
    "copied_model": ("copy.copy(m)", "rtfx.Model cannot be copied or pickled; load the model in the other process"),
    "deep_copy": ("copy.deepcopy({'decoder': d})", "rtfx.Decoder cannot be copied"),
    "pickled": ("pickle.dumps(d(frames, lengths))", "rtfx.Hypotheses cannot be copied or pickled; hand over list("),
    "pickled_stream": ("pickle.dumps(d.streams().open())", "rtfx.Stream cannot be"),
    "copied_streams": ("copy.copy(d.streams())", "rtfx.FrameStreams cannot be"),
    "spawned": ("multiprocessing.get_context('spawn').Process(target=print, args=(m,)).start()", "rtfx.Model cannot be"),
    "path_of_bytes": ("rtfx.load(os.fsdecode(b'\\xff.nemo'))", "\udcff.nemo"),
    "audio_of_bytes": ("m.transcribe([os.fsdecode(b'\\xff.wav')])", "\udcff.wav"),
    "array_of_frames": ("d(frames.numpy(), lengths)", "frames: ndarray; give a torch tensor"),
    "list_of_frames": ("d(frames.tolist(), lengths)", "frames: list; give a torch tensor"),
    "meta_frames": ("d(frames.to('meta'), lengths)", "frames: a tensor without values"),
    "sparse_frames": ("d(frames.to_sparse(), lengths)", "frames: a tensor of layout torch.sparse_coo"),
    "meta_audio": ("m.encode([torch.zeros(100, device='meta')])", "audio[0]: a tensor without values"),
    "sparse_audio": ("m.encode([torch.zeros(100).to_sparse()])", "audio[0]: a tensor of layout torch.sparse_coo"),
    "meta_piece": ("d.streams().open().push(frames[0].to('meta'))", "frames: a tensor without values"),
    "no_lengths": ("d(frames, ['two', 'three'])", "lengths: ['two', 'three']; give integers"),
    "dtype": ("rtfx.load(MODEL, dtype=torch.float32)", "dtype: "),
    "nan_clip": ("m.transcribe([clip[:8000], clip, with_nan], batch_size=1)", "audio[2]: sample 7 is nan"),
    "empty_clip": ("m.transcribe([*CLIPS, clip[:0]])", "audio[2]: a clip without samples"),
    "two_channels": ("m.transcribe([clip, torch.zeros(2, 100)])", "audio[1]: torch.float32 of shape (2, 100)"),
}
TRUE = {
    "reversed_view": "m.transcribe(clip.numpy()[::-1])[0].text == m.transcribe(clip.flip(0))[0].text",
    "numpy_option": "rtfx.decoder('alsd_pp', m, beam_size=numpy.int64(3)).options['beam_size'] == 3",
    "numpy_sizes": "d.streams(numpy.int32(2), numpy.int64(4)).open().push(frames[0]).text == d(frames, lengths)[0].text",
    "results_are_pickled": "pickle.loads(pickle.dumps(m.transcribe(CLIPS))) == m.transcribe(CLIPS)",
    "hypotheses_as_list": "copy.deepcopy(list(d(frames, lengths))) == list(d(frames, lengths))",
    "words_of_a_lexicon": "[w.text for w in m.words(dataclasses.replace(d(frames, lengths)[0], words=['A', 'b'], "
                          "word_frames=[2, 20]))] == ['A', 'b']",
    "no_autocast": "torch.equal(under_autocast(), frames)",
    "none_decoded_before_the_check": "d_was_not_called()",
}
SCRIPT = """
import copy, dataclasses, json, multiprocessing, numpy, os, pickle, sys, torch, rtfx
MODEL, CLIPS, refused, true = json.loads(sys.argv[1])
m = rtfx.load(MODEL, device="cpu")
d = rtfx.decoder("label_looping", m)
frames, lengths = m.encode(CLIPS[:1])
clip = m.read_audio(CLIPS[0])
with_nan = clip[:9000].clone()
with_nan[7] = float("nan")

def under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return m.encode(CLIPS[:1])[0]

def d_was_not_called():
    fresh = rtfx.decoder("label_looping", m)
    before = fresh.counters
    try:
        m.transcribe([clip, with_nan], decoder=fresh)
    except rtfx.InputError:
        return fresh.counters == before
    return False

def outcome(code):
    try:
        return [None, str(eval(code))]
    except (rtfx.Error, TypeError) as error:
        return [[kind.__name__ for kind in type(error).__mro__], str(error)]
    except Exception as error:
        return [[], repr(error)]

if __name__ == "__main__":
    print(json.dumps({name: outcome(code) for name, code in {**refused, **true, "version": "rtfx.__version__"}.items()}))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """{name: [names of the exception's classes or None, text]}"""
    site = tmp_path_factory.mktemp("site")
    (site / "rtfx/lib").mkdir(parents=True)
    for path in (ROOT / "python/rtfx").iterdir():
        if path.is_file():
            (site / "rtfx" / path.name).symlink_to(path)
    (site / "rtfx/lib/librtfx.so").symlink_to(LIBRARY)
    (site / "cases.py").write_text(SCRIPT)
    refused = {name: code for name, (code, _) in REFUSED.items()}
    given = json.dumps([str(MODELS / "quickstart-rnnt.nemo"), CLIPS, refused, TRUE])
    done = subprocess.run([sys.executable, site / "cases.py", given], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(site)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", REFUSED)
def test_a_fault_of_the_caller_is_an_error_that_names_it(outcomes, name):
    kinds, text = outcomes[name]
    assert REFUSED[name][1] in text
    assert ("TypeError" if "cannot be" in REFUSED[name][1] else "InputError") in kinds


@pytest.mark.parametrize("name", TRUE)
def test_it_holds(outcomes, name):
    assert outcomes[name] == [None, "True"]


def test_the_version_is_the_programs(outcomes, program):
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert outcomes["version"][1] in shown.split()
