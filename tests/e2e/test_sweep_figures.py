"""Tests figures over the options of decoders: the lines and points that a journal holds."""

import importlib
import sys
from types import SimpleNamespace

import pytest
import synthetic_journal as synthetic
from conftest import ROOT
from forked_script import script


def journal(folder):
    """Writes ALSD++ with beams 1, 2 and 4, with two ways of fusion and three weights, and greedy search, and one
    failure."""
    records = [synthetic.provenance(), synthetic.run(decoder="greedy", grade="baseline")]

    def add(name, errors, seconds, **options):
        record = synthetic.run(decode_seconds=seconds, decoder=name, exactness="approximate")
        record["decoder"] |= {"name": "alsd_pp", "options": options}
        record["wer"] |= {"substitutions": errors - 11, "insertions": 0, "deletions": 11}
        records.append(record)

    for beam in (4, 1, 2):
        add(f"alsd_pp_{beam}", 100 - beam, 0.5 * beam, beam_size=beam, loop="graph", lm=None)
    for blank in ("lm_weighted_full", "no_score"):
        for alpha in (0.5, 0.1, 0.3):
            lm = {"alpha": alpha, "pruning": "late", "blank_scoring": blank}
            add(f"{blank}_{alpha}", 60 + int(10 * alpha), 3, beam_size=4, graphs="none", lm=lm)
    records.append(synthetic.failure(decoder="broken"))
    return synthetic.write(folder, records)


def penalty_journal(folder):
    """Writes two searches with three blank penalties each, and two windows without a penalty, which make no line."""
    records = [synthetic.provenance()]
    for name, options in (("label_looping", {}), ("alsd_pp", {"beam_size": 4})):
        for penalty in (2, 0, 1):
            record = synthetic.run(decoder=f"{name}_{penalty}", exactness="approximate")
            record["decoder"] |= {"name": name, "options": options | {"blank_penalty": penalty}}
            record["wer"] |= {"substitutions": 20, "insertions": 5 * penalty, "deletions": 11 - 3 * penalty}
            records.append(record)
    for window in (1, 8):
        record = synthetic.run(decoder=f"frame_looping_{window}")
        record["decoder"] |= {"name": "frame_looping", "options": {"window": window, "blank_penalty": 0}}
        records.append(record)
    return synthetic.write(folder, records)


def skipping_journal(folder):
    """Writes two searches with three thresholds each, one of which is none, and one search without such an option."""
    records = [synthetic.provenance(), synthetic.run(decoder="ctc_greedy")]
    for name, options in (("label_looping", {}), ("alsd_pp", {"beam_size": 4})):
        for n, threshold in enumerate((0.5, None, 0.9)):
            record = synthetic.run(decoder=f"{name}_{n}", decode_seconds=1 + n, exactness="approximate")
            record["decoder"] |= {"name": name, "options": options | {"skip_blank": threshold}}
            record["wer"] |= {"substitutions": 20 + n, "insertions": 0, "deletions": 0}
            if threshold:
                record["counters"] |= {"frames": 200, "frames_skipped": int(100 / threshold)}
            records.append(record)
    return synthetic.write(folder, records)


def boost_journal(folder, counted=True):
    """Writes two lists with three scales each, and greedy search without a list. No word of the list "other" is said.
    If `counted` is False, the records lack their counts, as in older journals."""
    records = [synthetic.provenance(), synthetic.run(decoder="greedy", grade="baseline")]
    for words, said in (("said", 200), ("other", 0)):
        for scale in (8, 0, 4):
            records.append(synthetic.boosted(words, scale, said, said * (80 + scale) // 100))
            if not counted:
                del records[-1]["boosted"]
    return synthetic.write(folder, records)


def beside_journal(folder, **others):
    """Writes three scales of label-looping by both rules and by NeMo, whose results take 0.1 s beside 0.5 s of search.
    It adds one scale of another list, and searches without phrases."""
    records = [synthetic.provenance(), synthetic.run(decoder="greedy", grade="baseline")]
    for whose in ("rtfx", "nemo", "rival"):
        for scale, recalled in ((0, 10), (2, 15), (1, 16)):
            seconds = 0.6 if whose == "rival" else 0.25
            records.append(synthetic.boosted_search(whose, scale, recalled, decode_seconds=seconds))
    records.append(synthetic.boosted_search("rtfx", 1, 12, phrases="others"))
    records[-1]["case"] += "others"
    return synthetic.write(folder, records)


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """lines(script, journal) returns the labels of a script's figure and the (x, y) of each line in each panel."""
    monkeypatch.syspath_prepend(str(ROOT / "plots"))

    def of(name, path=None):
        path = path or journal(tmp_path / "run")
        cases = importlib.import_module("journal").read_journal(path).cases
        figure = importlib.import_module(name).draw(cases, 8.6)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        panels = [[line.get_data() for line in axes.get_lines()] for axes in figure.axes]
        return labels, [[(list(x), list(y)) for x, y in panel] for panel in panels]

    yield of
    importlib.import_module("matplotlib.pyplot").close("all")
    shared = ["journal", "options", "style", "sweep"]
    for module in [*shared, "rival_table", "beam_sweep", "blank_penalty", "boost", "lm_weight", "skip_blank", "trade_off"]:
        sys.modules.pop(module, None)


def test_beam_sweep(lines):
    labels, (wers, speeds) = lines("beam_sweep")
    assert labels == ["alsd_pp, CUDA graph"]  # with a language model there is one beam
    assert wers[0] == ([1, 2, 4], [pytest.approx(100 * (100 - k) / 290) for k in (1, 2, 4)])
    assert speeds[0][1] == sorted(speeds[0][1], reverse=True)


def test_lm_weight(lines):
    labels, (wers, deletions) = lines("lm_weight")
    assert labels == [
        "alsd_pp, beam 4: late,\nblank rescaled",
        "alsd_pp, beam 4: late,\nblank not scored",
    ]
    assert all(xs == [0.1, 0.3, 0.5] for xs, _ in wers + deletions)
    assert wers[0][1] == [pytest.approx(100 * errors / 290) for errors in (61, 63, 65)]
    assert deletions[0][1] == [pytest.approx(100 * 11 / 290)] * 3


def test_blank_penalty(lines, tmp_path):
    labels, (wers, deletions, insertions) = lines("blank_penalty", penalty_journal(tmp_path / "penalty"))
    assert labels == ["label_looping", "alsd_pp, beam 4"]
    assert wers[0] == ([0, 1, 2], [pytest.approx(100 * (31 + 2 * p) / 290) for p in range(3)])
    assert deletions[1] == ([0, 1, 2], [pytest.approx(100 * (11 - 3 * p) / 290) for p in range(3)])
    assert insertions[1] == ([0, 1, 2], [pytest.approx(100 * 5 * p / 290) for p in range(3)])


def options_journal(folder, *options):
    """Writes a case of label_looping for each of the options."""
    records = [synthetic.provenance()]
    for n, some in enumerate(options):
        record = synthetic.run(decoder=f"search_{n}", exactness="approximate")
        record["decoder"] |= {"name": "label_looping", "options": some}
        record["counters"] |= {"frames": 200, "frames_skipped": 50}
        record["wer"] |= {"substitutions": 20 + n, "insertions": 0, "deletions": 0}
        records.append(record)
    return synthetic.write(folder, records)


def test_a_line_joins_no_other_searches(lines, tmp_path):
    """A line joins only searches that differ in its own option. The third search skips frames, so it is not on the line
    of penalties."""
    plain = {"blank_penalty": 0.0, "skip_blank": None}
    path = options_journal(tmp_path / "run", plain, plain | {"blank_penalty": 1.0}, plain | {"skip_blank": 0.9})
    labels, (penalties, *_) = lines("blank_penalty", path)
    assert labels == ["label_looping"]
    assert penalties == [([0, 1], [pytest.approx(100 * errors / 290) for errors in (20, 21)])]
    _, (thresholds, *_) = lines("skip_blank", path)
    assert thresholds == [([0.9, 1], [pytest.approx(100 * errors / 290) for errors in (22, 20)])]


def test_lines_of_one_label_name_the_options_in_which_they_differ(lines, tmp_path):
    others = ({"window": 1, "boost": None}, {"window": 8, "boost": {"scale": 0.5}})
    searches = [other | {"blank_penalty": penalty} for other in others for penalty in (0, 1)]
    labels, _ = lines("blank_penalty", options_journal(tmp_path / "run", *searches))
    assert [label.replace("\n", " ") for label in labels] == ["label_looping, window 1", "label_looping, window 8, boost"]


def test_variants_of_one_beam_size_are_no_sweep(tmp_path):
    run = options_journal(tmp_path / "run", *({"beam_size": 6, "window": window} for window in (1, 4, 8))).parent
    result = script("plots/beam_sweep.py", run, "-o", tmp_path / "f.svg")
    assert result.returncode != 0 and "no record that this figure shows" in result.stderr


def test_blank_penalty_of_the_quickstart(rtfx, lines, tmp_path):
    """The example of docs/reference/searches.md for blank penalties runs, with one model."""
    run = tmp_path / "run"
    model = ROOT / "models/quickstart/quickstart-rnnt.nemo"
    result = rtfx("run", ROOT / "configs/blank_penalty.json", "--set", f"models={model}", "--output", run)
    assert result.returncode == 0, result.stderr
    labels, (_, deletions, insertions) = lines("blank_penalty", run / "journal.jsonl")
    assert labels == ["label_looping", "alsd_pp, beam 4", "ctc_greedy"]
    for (penalties, missing), (_, inserted) in zip(deletions, insertions, strict=True):
        assert penalties == [0, 0.5, 1, 1.5, 2, 3]
        assert missing[0] > missing[-1] and inserted[0] < inserted[-1]


def test_skip_blank(lines, tmp_path):
    labels, (wers, seconds, shares) = lines("skip_blank", skipping_journal(tmp_path / "skipping"))
    assert labels == ["label_looping", "alsd_pp, beam 4"]
    assert wers == [([0.5, 0.9, 1], [pytest.approx(100 * (20 + n) / 290) for n in (0, 2, 1)])] * 2
    assert seconds == [([0.5, 0.9, 1], pytest.approx([1, 3, 2]))] * 2
    assert shares == [([0.5, 0.9, 1], [100, 55.5, 0])] * 2


def test_skip_blank_of_the_quickstart(rtfx, lines, tmp_path):
    """The example of docs/reference/searches.md for skipping blanks runs, with one model and one round."""
    run = tmp_path / "run"
    model = ROOT / "models/quickstart/quickstart-rnnt.nemo"
    only = ("--set", f"models={model}", "--set", "protocol.warmup_rounds=0", "--set", "protocol.measured_rounds=1")
    result = rtfx("run", ROOT / "configs/skip_blank.json", *only, "--output", run)
    assert result.returncode == 0, result.stderr
    labels, (wers, _, shares) = lines("skip_blank", run / "journal.jsonl")
    assert labels == ["label_looping", "alsd_pp, beam 4", "ctc_beam, beam 4"]
    for (thresholds, errors), (_, skipped) in zip(wers, shares, strict=True):
        assert thresholds == [0.5, 0.7, 0.9, 0.99, 1]
        assert skipped == sorted(skipped, reverse=True) and skipped[-1] == 0 < skipped[2]
        assert errors[3] == pytest.approx(errors[4], abs=10)


def test_boost(lines, tmp_path):
    labels, (wers, recalls, insertions, alarms) = lines("boost", boost_journal(tmp_path / "boost"))
    assert labels == ["ctc_wfst, beam 17: said", "ctc_wfst, beam 17: other"]
    assert wers[0] == wers[1] == ([0, 4, 8], [pytest.approx(100 * 60 / 290)] * 3)
    assert recalls == [([0, 4, 8], [80, 84, 88])]  # the list without said words has no recall
    assert insertions[0][1] == [pytest.approx(100 * i / 290) for i in (0, 4, 8)]
    assert alarms[1][1] == [pytest.approx(100 * i / 290) for i in (29, 33, 37)]


def test_boost_of_a_journal_without_counts(lines, tmp_path):
    _, panels = lines("boost", boost_journal(tmp_path / "boost", counted=False))
    assert len(panels) == 2 and all(len(panel) == 2 for panel in panels)
    assert panels[1][0][1] == [pytest.approx(100 * i / 290) for i in (0, 4, 8)]


def test_boost_beside_a_rival(lines, tmp_path):
    labels, (scores, times) = lines("boost", beside_journal(tmp_path / "beside"))
    assert labels == ["rtfx", "rtfx, rules nemo", "nemo 3.0.0"]
    of_all = [100 * 2 * n / (n + 29 + scale + 20) for scale, n in ((0, 10), (1, 16), (2, 15))]
    assert scores == [([0, 1, 2], pytest.approx(of_all))] * 3
    assert times == [([0, 1, 2], pytest.approx([0.252] * 3))] * 2 + [([0, 1, 2], pytest.approx([0.5] * 3))]


def test_boost_of_searches_without_a_graph(lines, tmp_path):
    """Searches without a graph, whose options have no `beam`, are drawn."""
    records = [synthetic.provenance()]
    records += [synthetic.boosted_search("rtfx", scale, 10 + scale) for scale in (0, 1)]
    labels, panels = lines("boost", synthetic.write(tmp_path / "run", records))
    assert labels == ["rtfx: names"]
    assert panels[1] == [([0, 1], pytest.approx([50, 55]))]


def test_trade_off_joins_what_nothing_beats(lines):
    labels, [[(speeds, wers), *points]] = lines("trade_off")
    assert len(points) == 10
    # Beams of one form share a marker, since numbers tell them apart. Each weight of the language model has its own.
    weights = [f"{blank}_{alpha}" for blank in ("lm_weighted_full", "no_score") for alpha in (0.5, 0.1, 0.3)]
    assert labels == ["greedy", "alsd_pp, CUDA graph", *weights]
    # Greedy (0.5 s, 90 errors) beats beam 1 (0.5 s, 99 errors). Beam 4 without a language model loses to 61 errors.
    assert wers == [pytest.approx(100 * 90 / 290), pytest.approx(100 * 61 / 290)]
    assert speeds == sorted(speeds, reverse=True)


@pytest.mark.parametrize("name", ["beam_sweep", "blank_penalty", "boost", "lm_weight", "skip_blank", "trade_off"])
def test_scripts_write_figures(name, tmp_path):
    special = {"blank_penalty": penalty_journal, "boost": boost_journal, "skip_blank": skipping_journal}
    made = special.get(name, journal)
    run = made(tmp_path / "run").parent
    for kind in ("svg", "pdf", "png"):
        assert script(f"plots/{name}.py", run, "-o", tmp_path / f"f.{kind}").returncode == 0
        assert (tmp_path / f"f.{kind}").stat().st_size > 1000


@pytest.mark.parametrize("name", ["beam_sweep", "blank_penalty", "boost", "lm_weight", "skip_blank"])
def test_a_journal_without_such_options_is_an_error(name, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.typical()).parent
    result = script(f"plots/{name}.py", run, "-o", tmp_path / "f.svg")
    assert result.returncode != 0 and "no record that this figure shows" in result.stderr


@pytest.mark.parametrize(("name", "options", "label"), [
    ("alsd_pp", {"kernels": "fused", "loop": "graph", "lm": {"path": "a"}}, "alsd_pp, fused graph, LM"),
    ("alsd_pp", {"kernels": "fused", "loop": "host"}, "alsd_pp, fused"),
    ("alsd_pp", {"kernels": "operators", "loop": "graph"}, "alsd_pp, CUDA graph"),
    ("python", {"class": "Flashlight"}, "flashlight"),
])  # fmt: skip
def test_forms_and_decoders_in_python_are_told_apart(name, options, label, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "plots"))
    case = SimpleNamespace(last={"decoder": {"name": name, "id": "flashlight", "options": options}})
    assert importlib.import_module("journal").arm(case) == label
