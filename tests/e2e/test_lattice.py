"""Tests `rtfx lattice`: the files written, OpenFst's reading of them, and the words of least expected errors."""

import json
import shutil
import subprocess

import pytest
from conftest import AUDIO, ROOT

LEXICON, LM = ROOT / "tests/data/words.lexicon", ROOT / "tests/data/words.arpa"
SCALE = 1.5


@pytest.fixture
def settings(tmp_path):
    """Returns settings whose boosts are so high that the boosted words are found whatever is said."""
    graph, boosts = str(tmp_path / "words.tlg"), tmp_path / "boosts"
    boosts.write_text("a 15\nab 18\naback 24\nabaft 24\n")
    options = {"graph": graph, "acoustic_scale": SCALE, "beam": 40, "lattice_beam": 3,
               "boost": {"path": str(boosts)}}  # fmt: skip
    return {
        "datasets": [{"id": "two", "files": [str(AUDIO / f"1737-146161-000{i}.flac") for i in (7, 9)]}],
        "prepare": [{"graph": graph, "lexicon": str(LEXICON), "lm": str(LM)}],
        "decoders": ["null", {"id": "cpu", "name": "ctc_wfst_cpu", "options": options}],
    }


@pytest.fixture
def lattice(rtfx, config, settings, tmp_path):
    def run(*arguments, **changes):
        return rtfx("lattice", config(**(settings | changes)), "--output", tmp_path / "out", *arguments)

    return run


def read_archive(path):
    """Reads an archive as {key: [(from, to, word, graph, acoustic, labels)]} and {key: last state}."""
    arcs, ends = {}, {}
    for entry in path.read_text().split("\n\n"):
        if not entry:
            continue
        key, *lines = entry.split("\n")
        ends[key] = int(lines.pop())
        arcs[key] = []
        for line in lines:
            begin, end, word, weight = line.split("\t")
            graph, acoustic, labels = weight.split(",")
            labels = labels.split("_") if labels else []
            arcs[key].append((int(begin), int(end), int(word), float(graph), float(acoustic), labels))
    return arcs, ends


def best_cost(arcs, end, graph_scale=1, acoustic_scale=SCALE):
    least = {0: 0.0}
    for begin, to, _, graph, acoustic, _ in arcs:
        cost = least[begin] + graph_scale * graph + acoustic_scale * acoustic
        least[to] = min(least.get(to, cost), cost)
    return least[end]


def lines_of(folder):
    return [json.loads(line) for line in (folder / "lattices.jsonl").read_text().splitlines()]


def test_the_best_path_is_the_searches(lattice, transcribe, settings, tmp_path):
    result = lattice()
    assert result.returncode == 0, result.stderr
    arcs, ends = read_archive(tmp_path / "out/lattices.txt")
    options = json.dumps(settings["decoders"][1]["options"])
    files = settings["datasets"][0]["files"]
    found = transcribe("--json", "--decoder", "ctc_wfst_cpu", "--options", options, *files)
    assert found.returncode == 0, found.stderr
    lines, texts = lines_of(tmp_path / "out"), [json.loads(s) for s in found.stdout.splitlines()]
    assert len(lines) == len(texts) == 2
    for line, text in zip(lines, texts, strict=True):
        own = arcs[line["key"]]
        assert best_cost(own, ends[line["key"]]) == pytest.approx(-text["score"], rel=1e-4)
        assert line["cost"] == pytest.approx(-text["score"], rel=1e-4)
        assert " ".join(line["words"]) == text["text"]
        assert len(own) == line["arcs"] > 2 * len(line["words"]) > 0
        # All paths to a state take the same time.
        times = {0: 0}
        for begin, to, _, _, _, labels in own:
            assert times.setdefault(to, times[begin] + len(labels)) == times[begin] + len(labels)
        assert times[ends[line["key"]]] == line["frames"]


@pytest.mark.skipif(not shutil.which("fstcompile"), reason="OpenFst's programs (libfst-tools) are not installed")
def test_openfst_finds_the_same_best_path(lattice, tmp_path):
    assert lattice().returncode == 0
    out = tmp_path / "out"

    def fst(name, *arguments, given=None):
        return subprocess.run([name, *map(str, arguments)], input=given,
                              capture_output=True, check=True).stdout  # fmt: skip

    for line in lines_of(out):
        symbols = f"--isymbols={out / 'words.txt'}"
        made = fst("fstcompile", "--acceptor", symbols, out / line["fst"])
        best = fst("fsttopsort", given=fst("fstshortestpath", given=made))
        text = fst("fstprint", "--acceptor", symbols, given=best).decode()
        rows = [row.split("\t") for row in text.splitlines()]
        assert [row[2] for row in rows if len(row) > 2 and row[2] != "<eps>"] == line["words"]
        costs = [float(row[3]) for row in rows if len(row) == 4]
        costs += [float(row[1]) for row in rows if len(row) == 2]
        assert sum(costs) == pytest.approx(line["cost"], rel=1e-4)


@pytest.mark.parametrize("scales", [{"acoustic": 0.25}, {"graph": 8}, {"acoustic": 0.75, "graph": 0.5}])
def test_the_scales_weigh_the_costs_of_the_best_path(lattice, tmp_path, scales):
    options = [word for name, scale in scales.items() for word in (f"--{name}-scale", scale)]
    assert lattice(*options).returncode == 0
    arcs, ends = read_archive(tmp_path / "out/lattices.txt")
    given = {f"{name}_scale": scale for name, scale in scales.items()}
    for line in lines_of(tmp_path / "out"):
        own, end = arcs[line["key"]], ends[line["key"]]
        assert line["cost"] == pytest.approx(best_cost(own, end, **given), rel=1e-4)
        assert line["cost"] != pytest.approx(best_cost(own, end), rel=1e-2)


def test_words_of_least_expected_errors_and_posteriors(lattice, tmp_path):
    result = lattice("--mbr", "--posteriors", "--acoustic-scale", 0.75, "--graph-scale", 0.5)
    assert result.returncode == 0, result.stderr
    lines = {line["key"]: line for line in lines_of(tmp_path / "out")}
    unsure, done = 0, {}
    for row in result.stdout.splitlines():
        key, channel, begin, length, word, confidence = row.split()
        assert float(begin) >= done.get(key, 0) - 0.02  # times are rounded to 10 ms
        assert channel == "1" and word in {"a", "ab", "aback", "abaft"}
        end = float(begin) + float(length)
        assert 0 <= float(begin) <= end <= lines[key]["frames"] * 0.08 + 0.01
        assert 0 < float(confidence) <= 1
        unsure += float(confidence) < 1
        done[key] = end
    assert unsure > 0
    for line in lines.values():
        assert len(line["posteriors"]) == line["frames"]
        for words in line["posteriors"]:
            assert sum(p for _, p in words) == pytest.approx(1)
    assert max(len(words) for line in lines.values() for words in line["posteriors"]) > 1


def test_the_gpus_decoder_gives_the_same_lattices(lattice, settings, tmp_path):
    assert lattice().returncode == 0
    before = (tmp_path / "out/lattices.txt").read_bytes()
    options = settings["decoders"][1]["options"] | {"loop": "host", "nbest": 4, "mbr": {}}
    changed = lattice(decoders=[{"name": "ctc_wfst", "options": options}])
    assert changed.returncode == 0, changed.stderr
    assert (tmp_path / "out/lattices.txt").read_bytes() == before


def test_earlier_results_are_kept(lattice, settings, tmp_path):
    """An earlier run's lattices are moved aside, and so are the files of another command."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "utterances.jsonl").write_text("of `rtfx emissions`")
    assert lattice().returncode == 0
    settings["datasets"][0]["files"].pop()
    settings["datasets"][0]["stand_in"] = "read by colleagues"
    second = lattice()
    assert second.returncode == 0 and "notice: two: stand-in data: read by colleagues" in second.stderr
    assert [path.name for path in (out / "fst").iterdir()] == ["00000.txt"] and len(list((out / "fst.1").iterdir())) == 2
    assert (out / "utterances.jsonl").read_text() == "of `rtfx emissions`" and len(lines_of(out)) == 1
    assert (out / "lattices.jsonl.1").is_file()


def test_ids_of_one_key_cost_no_earlier_results(lattice, tmp_path):
    manifest, audio = tmp_path / "same.jsonl", str(AUDIO / "1737-146161-0007.flac")
    manifest.write_text("".join(json.dumps({"audio_filepath": audio, "id": name}) + "\n" for name in ("a b", "a_b")))
    out = tmp_path / "out"
    out.mkdir()
    (out / "words.txt").write_text("earlier")
    result = lattice(datasets=[{"id": "same", "manifest": str(manifest)}])
    assert result.returncode == 2 and "a_b: is the key of two utterances" in result.stderr
    assert [path.name for path in out.iterdir()] == ["words.txt"]


@pytest.mark.parametrize(
    "arguments, changes, complaint",
    [
        ([], {"decoders": ["null"]}, "no decoder that searches a decoding graph"),
        (["--acoustic-scale", -1], {}, "--acoustic-scale"),
    ],
)
def test_bad_input(lattice, arguments, changes, complaint):
    result = lattice(*arguments, **changes)
    assert result.returncode == 2 and complaint in result.stderr
    assert len(result.stderr.splitlines()) <= 2, result.stderr


def test_frames_are_not_skipped(lattice, settings):
    settings["decoders"][1]["options"]["skip_blank"] = 0.9
    result = lattice()
    assert result.returncode == 2 and "/decoders/1/options/skip_blank: lattices have all frames" in result.stderr
