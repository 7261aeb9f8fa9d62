"""Tests the decoders of other projects (rivals/) whose environments rivals/environment.sh has made."""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import time
import weakref
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, small_config, strict_records
from forked_script import script
from golden import checkpoint


def shared(path):
    found = Path(os.environ.get("RTFX_SHARED", ROOT.parent / "shared")) / path
    if not found.exists():
        pytest.skip(f"no {found} (RTFX_SHARED names the shared folder)")
    return str(found)


@pytest.mark.parametrize("path", sorted((ROOT / "configs/rivals").glob("*.json")), ids=lambda path: path.stem)
def test_rivals_on_a_gpu_run_isolated(path):
    """Rivals on a GPU run isolated, so that a rival that aborts the process loses its own cases alone."""
    config = json.loads(path.read_text())
    rivals = [one for one in config["decoders"] if isinstance(one, dict) and one.get("name") == "python"]
    on_gpu = config.get("device") == "cuda"
    assert config.get("isolate", False) or not (rivals and on_gpu)


def environment(rival):
    python = ROOT / "rivals" / rival / ".venv/bin/python"
    if not python.exists():
        pytest.skip(f"{rival} is not installed: rivals/environment.sh {rival}")
    return python


def compared(rtfx, tmp_path, rival, model="quickstart-rnnt", **changes):
    """Runs `rival`'s decoders beside others on a CPU, and returns {decoder: record}."""
    python = environment(rival)
    config = small_config(**{"models": [str(MODELS / f"{model}.nemo")], **changes})
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run",
                  env=os.environ | {"RTFX_PYTHON": str(python)})  # fmt: skip
    assert result.returncode == 0, result.stderr
    return {r["decoder"]["id"]: r for r in runs_of(strict_records(tmp_path / "run/journal.jsonl"))}


def rival(name, file, id=None, head="transducer", **options):
    settings = {"file": str(ROOT / "rivals" / file), "class": name, "head": head, "options": options}
    return {"id": id or name, "name": "python", "options": settings}


NEMO = "nemo/nemo_decoders.py"


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_nemo(rtfx, tmp_path, model):
    greedy = rival("Greedy", NEMO, search="label_looping")
    greedy["options"] |= {"exactness": "exact", "score_kind": "logit"}
    runs = compared(rtfx, tmp_path, "nemo", model, decoders=[
        "frame_looping", "label_looping", greedy, rival("Beam", NEMO, graphs=False), "ctc_greedy",
        rival("CtcGreedy", NEMO, head="ctc"), rival("CtcBeam", NEMO, head="ctc", beam_size=4)])  # fmt: skip
    assert runs["Greedy"]["exactness"]["grade"] in ("bitwise", "exact")
    assert runs["Greedy"]["exactness"]["replay"]["beyond"] == 0
    assert runs["CtcGreedy"]["exactness"]["grade"] in ("bitwise", "exact")
    assert runs["Greedy"]["decoder"]["options"]["versions"]["graph_mode"] == "none"
    assert runs["Beam"]["counters"]["objects_us"] > 0
    table = script("plots/rival_table.py", tmp_path / "run").stdout
    version = runs["Greedy"]["decoder"]["options"]["versions"]["nemo"]
    assert f"| Greedy (nemo {version}) |" in table
    ratios = [line for line in table.splitlines() if "'s fastest greedy search / ours" in line]
    assert ["algorithm alone" in line for line in ratios] == [False, True], table  # the first row is of whole calls


def test_nemos_eager_durations_depend_on_the_batch(rtfx, tmp_path):
    """Up to NeMo 3.0.0, a token gets the duration of a later frame while other rows still search for their tokens."""
    greedy = rival("Greedy", NEMO, graphs=False)
    greedy["options"] |= {"exactness": "exact", "score_kind": "logit"}
    runs = compared(rtfx, tmp_path, "nemo", models=[str(checkpoint("standin256-tdt"))],
                    datasets=[{"id": "four", "manifest": shared("audio/spoken/manifest.jsonl"), "limit": 4}],
                    decoders=["frame_looping", greedy], batch_sizes=[4],
                    verify={"required": {"fp32": "different"}})  # fmt: skip
    if runs["Greedy"]["decoder"]["options"]["versions"]["nemo"] not in ("2.7.3", "3.0.0"):
        pytest.skip("another NeMo: rivals/nemo/README.md says what was mended after 3.0.0")
    assert runs["Greedy"]["wer"] == runs["frame_looping"]["wer"]
    assert runs["Greedy"]["exactness"]["grade"] == "different"
    assert runs["Greedy"]["exactness"]["replay"]["first"]["kind"] == "duration"


PHRASES = "knit two together twice,knit two,knit,together,marmalade,forty three,elephant"


def boosted_pair(name, search, theirs, head="transducer", **options):
    """Returns our search with NeMo's rules and NeMo's own search. The scale makes every product inexact."""
    ours = {"phrases": PHRASES.split(","), "compatibility": "nemo", "scale": 1.7}
    return [{"id": search, "name": search, "options": {"boost": ours} | options},
            rival(name, NEMO, head=head, boost=PHRASES, boost_alpha=1.7, **theirs)]  # fmt: skip


def tokens_of(run, record):
    lines = (run / f"hypotheses/{record['result_key']}.jsonl").read_text().splitlines()
    return {line["id"]: line["tokens"] for line in map(json.loads, lines)}


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_nemos_boosted_phrases(rtfx, tmp_path, model):
    path = str(MODELS / f"{model}.nemo")
    beam = {"nemo": path, "blank_lm_score_mode": "no_score", "pruning_mode": "late"}
    ctc = {"nemo": path, "beam_size": 4}
    pairs = [boosted_pair("Greedy", "label_looping", {"nemo": path}), boosted_pair("Beam", "alsd_pp", beam),
             boosted_pair("CtcGreedy", "ctc_greedy", {"nemo": path}, "ctc"),
             boosted_pair("CtcBeam", "ctc_beam", ctc, "ctc", merge="max")]  # fmt: skip
    all_of_it = [{"id": "all", "manifest": str(AUDIO / "manifest.jsonl")}]
    runs = compared(rtfx, tmp_path, "nemo", model, decoders=["frame_looping", *sum(pairs, [])], datasets=all_of_it,
                    batch_sizes=[1], verify={"required": {"fp32": "different"}, "replay": False})  # fmt: skip
    assert tokens_of(tmp_path / "run", runs["frame_looping"]) != tokens_of(tmp_path / "run", runs["label_looping"])
    for ours, theirs in pairs:
        found = [runs[one["id"]] for one in (ours, theirs)]
        assert tokens_of(tmp_path / "run", found[0]) == tokens_of(tmp_path / "run", found[1]), ours["id"]
        assert found[0]["boosted"] == found[1]["boosted"] and found[0]["boosted"]["phrases"]["count"] == 7


POISONED = """
import sys
sys.path.insert(0, {folder!r})
import nemo_decoders, torch

class Poisoned:
    def decode(self, frames, lengths):
        ended = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
        return super().decode(frames.masked_fill(ended[..., None], float("nan")), lengths)

class Greedy(Poisoned, nemo_decoders.Greedy): pass
class Beam(Poisoned, nemo_decoders.Beam): pass
class CtcGreedy(Poisoned, nemo_decoders.CtcGreedy): pass
class CtcBeam(Poisoned, nemo_decoders.CtcBeam): pass
"""


def test_frames_behind_the_end_of_a_row_change_nothing(rtfx, tmp_path):
    """Frames after the end of a row do not matter. They may be NaN on a GPU (docs/own_decoder.md), but NeMo's encoder
    gives numbers there."""
    (tmp_path / "poisoned.py").write_text(POISONED.format(folder=str(ROOT / "rivals/nemo")))
    searches = [("Greedy", {"search": "label_looping"}), ("Greedy", {"search": "frame_looping"}), ("Beam", {}), ("Beam", {"search": "maes_batch"}),
                ("CtcGreedy", {}), ("CtcBeam", {"beam_size": 4})]  # fmt: skip
    decoders, pairs = ["frame_looping", "ctc_greedy"], []
    for i, (name, options) in enumerate(searches):
        head = "ctc" if name.startswith("Ctc") else "transducer"
        files = {f"{i}": NEMO, f"{i}_poisoned": str(tmp_path / "poisoned.py")}
        decoders += [rival(name, file, id, head, graphs=False, **options) for id, file in files.items()]
        pairs.append(list(files))
    runs = compared(rtfx, tmp_path, "nemo", decoders=decoders, batch_sizes=[4], verify={"required": {"fp32": "different"}, "replay": False},
                    datasets=[{"id": "eight", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 8}])  # fmt: skip
    for pair in pairs:
        clean, poisoned = ((tmp_path / f"run/hypotheses/{runs[id]['result_key']}.jsonl").read_text() for id in pair)
        assert clean == poisoned, searches[int(pair[0])]


def test_nemos_ctc_beam_goes_on_over_padding(rtfx, tmp_path):
    """Up to NeMo 3.0.0, the score of a hypothesis contains what the padding of its batch adds."""
    theirs = rival("CtcBeam", NEMO, head="ctc", beam_size=4)
    scores = {}
    for batch in (1, 4):
        folder = tmp_path / str(batch)
        folder.mkdir()
        runs = compared(rtfx, folder, "nemo", decoders=["ctc_greedy", theirs], batch_sizes=[batch],
                        datasets=[{"id": "eight", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 8}],
                        verify={"required": {"fp32": "different"}, "replay": False})  # fmt: skip
        lines = (folder / f"run/hypotheses/{runs['CtcBeam']['result_key']}.jsonl").read_text().splitlines()
        scores[batch] = {line["id"]: line["score"] for line in map(json.loads, lines)}
    if runs["CtcBeam"]["decoder"]["options"]["versions"]["nemo"] not in ("2.7.3", "3.0.0"):
        pytest.skip("another NeMo: rivals/nemo/README.md says how it was")
    assert any(scores[4][name] < scores[1][name] - 1e-4 for name in scores[1])


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_nemos_transcribe_with_our_search(tmp_path, model):
    python = environment("nemo")
    wheels = sorted((ROOT / "dist").glob("rtfx-*.whl"))
    if not wheels:
        pytest.skip("no wheel: `make wheel` makes it")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wheel.extractall(tmp_path)
    command = [python, ROOT / "rivals/nemo/transcribe.py", MODELS / f"{model}.nemo", "--manifest",
               AUDIO / "manifest.jsonl", "--limit", "3", "--batch", "2", "--rounds", "1", "-o", tmp_path / "out.jsonl"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "out.jsonl").read_text())
    assert record["equal"] == {"texts": 3, "tokens_and_frames": 3}
    assert f"| {model} | 2 |" in result.stdout


@pytest.fixture
def transcribe(monkeypatch):
    """rivals/nemo/transcribe.py without NeMo and rtfx."""
    pytest.importorskip("torch")
    stand_in = SimpleNamespace(__path__=[], word_error_rate=None, about=None, restored=None, utterances_of=None,
                               logging=SimpleNamespace(setLevel=lambda _: None, ERROR=40))  # fmt: skip
    for name in ("nemo", "nemo.collections", "nemo.collections.asr", "nemo.collections.asr.metrics",
                 "nemo.collections.asr.metrics.wer", "nemo.utils", "rtfx", "rtfx.nemo", "restore", "manifests"):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, stand_in)
    spec = importlib.util.spec_from_file_location("nemo_transcribe", ROOT / "rivals/nemo/transcribe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CPU = SimpleNamespace(type="cpu")


def test_cpu_seconds_of_nemo_count_its_workers(transcribe):
    work = "import time\nwhile time.process_time() < 0.4: pass"

    def call():
        return subprocess.run([sys.executable, "-S", "-c", work], check=True).returncode

    times, found = transcribe.timed(call, CPU)
    assert found == 0 and 0.4 <= times["cpu_seconds"] < 5


def test_garbage_of_earlier_calls_is_collected_before_the_clock_starts(transcribe, monkeypatch):
    class Node:
        pass

    events, clock = [], time.perf_counter
    gc.disable()  # no collection but that of timed()
    try:
        node = Node()
        node.itself, left = node, weakref.ref(node)
        weakref.finalize(node, events.append, "collected")
        del node
        assert left() is not None
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda: events.append("clock") or clock())
            times, found = transcribe.timed(left, CPU)
    finally:
        gc.enable()
    assert found is None and events[0] == "collected" and "clock" in events and times["collection_seconds"] == 0
    times, _ = transcribe.timed(gc.collect, CPU)
    assert 0 < times["collection_seconds"] <= times["seconds"]


def test_an_empty_log_of_the_compiler_takes_no_byte_of_pythons():
    """Python's own bytes object b" " is unchanged after a compilation by NeMo, which needs no GPU before its result is
    loaded."""
    program = """
import restore
from nemo.core.utils import cuda_python_utils
if not hasattr(cuda_python_utils, "nvrtc"): raise SystemExit(77)
# Compiled from source, as the first process that imports it does: constants out of a cache are objects of their own.
exec(compile(open(cuda_python_utils.__file__).read(), "nemo", "exec"), vars(cuda_python_utils))
cuda_python_utils.assert_drv = lambda err: None  # asks for the driver
try: cuda_python_utils.run_nvrtc('extern "C" __global__ void k() {}', b"k", b"k.cu")
except Exception: pass  # without a GPU nothing loads
assert list(" ".encode()) == [32]
"""
    result = subprocess.run([environment("nemo"), "-c", program], cwd=ROOT / "rivals/nemo",
                            env=os.environ | {"PYTHONPATH": "."}, capture_output=True, text=True)  # fmt: skip
    if result.returncode == 77:
        pytest.skip("NeMo's environment has no cuda-python")
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.fixture
def wfst_decoders(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(ROOT / "rivals/wfst")
    yield importlib.import_module("wfst_decoders")
    for name in ("wfst_decoders", "workers", "graphs"):
        sys.modules.pop(name, None)


def test_words_lie_along_the_labels(wfst_decoders):
    blank, token_frames = 9, wfst_decoders.token_frames
    assert token_frames([1, 2], [9, 1, 1, 9, 2], blank) == [1, 4]
    assert token_frames([1, 1, 2], [1, 9, 1, 2], blank) == [0, 2, 3]
    assert token_frames([1, 1, 2], [9, 1, 1, 2], blank) == [1, 2, 3]  # no blank separates the equal labels
    assert token_frames([1, 2], [1, 9, 1, 2], blank) == [0, 0]  # the path has other labels
    assert token_frames([1, 1], [9, 1], blank) == [0, 0]
    assert token_frames([], [9, 9], blank) == []


def test_rivas_lists_keep_the_paths_of_each_row(wfst_decoders, tmp_path):
    """Lists keep each row's paths as riva returns them. A row whose search reached no end has an empty result. riva is
    not needed."""
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    (tmp_path / "lexicon.txt").write_text("a A\nb B A\n")
    decoder = object.__new__(wfst_decoders.Riva)
    decoder.mode, decoder.nbest, decoder.lengths = "nbest", 2, [4, 3]
    model = SimpleNamespace(pieces=["A", "B"], blank=2)
    decoder.words = wfst_decoders.Words(model, tmp_path / "compact.fst")
    paths = [SimpleNamespace(ilabels=[3, 1, 3, 3], words=[1], score=-1.5),
             SimpleNamespace(ilabels=[2, 2, 1, 3, 0], words=[2], score=-2.0)]  # fmt: skip
    tokens, frames, scores = decoder.results([paths, []])
    assert tokens == [[[0], [1, 0]], [[]]]
    assert frames == [[[1], [0, 2]], [[]]]
    assert scores == [[-1.5, -2.0], [0.0]]
    decoder.nbest = 1
    assert decoder.results([paths[:1], []]) == ([[0], []], [[1], []], [-1.5, 0.0])


def test_kaldi_decoder_finds_what_ours_does(rtfx, tmp_path):
    with tarfile.open(shared("rivals/wfst/wfst_kit.tar.xz")) as archive:
        wanted = {f"kit/graphs/{name}": name for name in ("compact.fst", "words.txt", "lexicon.txt")}
        for member in archive:
            if member.name in wanted:
                (tmp_path / wanted[member.name]).write_bytes(archive.extractfile(member).read())
    model = str(checkpoint("standin256-rnnt"))
    made = rtfx("graph", "import", "--openfst", tmp_path / "compact.fst", "--words", tmp_path / "words.txt",
                "--tokenizer", model, "--output", tmp_path / "compact.tlg")  # fmt: skip
    assert made.returncode == 0, made.stderr
    ours = {"name": "ctc_wfst_cpu", "options": {"graph": str(tmp_path / "compact.tlg"), "beam": 17}}
    kaldi = rival("Kaldi", "wfst/wfst_decoders.py", head="ctc", graph=str(tmp_path / "compact.fst"), processes=1)
    runs = compared(rtfx, tmp_path, "wfst", models=[model], decoders=[ours, kaldi], batch_sizes=[8],
                    datasets=[{"id": "few", "manifest": shared("audio/spoken/manifest.jsonl"), "limit": 16}])  # fmt: skip
    assert runs["Kaldi"]["exactness"]["grade"] == "exact"


def test_torchaudio(rtfx, tmp_path):
    file = "torchaudio/torchaudio_decoders.py"
    runs = compared(rtfx, tmp_path, "torchaudio", decoders=["frame_looping", rival("RnntBeam", file)],
                    datasets=[{"id": "one", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 1}])  # fmt: skip
    assert runs["RnntBeam"]["wer"]["wer"] <= runs["frame_looping"]["wer"]["wer"]
