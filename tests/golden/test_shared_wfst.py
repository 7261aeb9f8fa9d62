"""Compares our TLG graphs with the one that riva's tools built from the same lexicon and language model (RTFX_SHARED).
The word error rate of the WFST search is compared with that of greedy search."""

import json
import re
import subprocess
import tarfile

import pytest
from conftest import PROGRAM
from golden import SHARED, checkpoint, need, searches, transcripts

MODEL = "standin256-rnnt"
KIT = SHARED / "rivals/wfst/wfst_kit.tar.xz"
LM, LEXICON = SHARED / "lm/word_3gram.arpa.gz", SHARED / "lm/lexicon.txt.gz"
SPOKEN = SHARED / "audio/spoken"
UTTERANCES = 40


@pytest.fixture(scope="module")
def graphs(program, tmp_path_factory):
    """Returns {name: file} of our two topologies and of riva's compact graph."""
    model = checkpoint(MODEL)
    need(KIT, LM, LEXICON, SPOKEN)
    folder = tmp_path_factory.mktemp("graphs")
    with tarfile.open(KIT) as kit:
        for name in ("compact.fst", "words.txt"):
            (folder / name).write_bytes(kit.extractfile(f"kit/graphs/{name}").read())

    def make(name, *arguments):
        output = folder / f"{name}.tlg"
        command = [PROGRAM, "graph", *arguments, "--tokenizer", model, "--output", output]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return output

    sources = ["--lexicon", LEXICON, "--lm", LM]
    riva = ["--openfst", folder / "compact.fst", "--words", folder / "words.txt"]
    return {
        "compact": make("compact", "build", *sources),
        "normal": make("normal", "build", *sources, "--topology", "normal"),
        "riva": make("riva", "import", *riva),
    }


@pytest.fixture(scope="module")
def found(graphs):
    """Returns {search: {file name: result}}."""
    decoders = {name: ("ctc_wfst_cpu", {"graph": str(path)}) for name, path in graphs.items()}
    decoders["lexicon"] = ("ctc_lexicon_cpu", {"lexicon": str(LEXICON), "lm": str(LM)})
    files = tuple(sorted(SPOKEN.glob("*.flac"))[:UTTERANCES])
    return transcripts(checkpoint(MODEL), searches("ctc_greedy", **decoders), files)


def test_our_graph_is_that_of_riva(found):
    assert len(found["compact"]) == UTTERANCES
    for name, line in found["compact"].items():
        theirs = found["riva"][name]
        assert line["tokens"] == theirs["tokens"], name
        assert line["frames"] == theirs["frames"], name
        assert line["score"] == pytest.approx(theirs["score"], rel=1e-3), name


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def word_errors(reference, found):
    costs = list(range(len(found) + 1))
    for i, word in enumerate(reference, start=1):
        diagonal, costs[0] = costs[0], i
        for j, other in enumerate(found, start=1):
            kept = diagonal + (word != other)
            diagonal, costs[j] = costs[j], min(costs[j] + 1, costs[j - 1] + 1, kept)
    return costs[-1]


def test_fewer_word_errors_than_greedy_search(found, capsys):
    manifest = (SPOKEN / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {line["audio_filepath"]: line["text"] for line in map(json.loads, manifest)}

    def rate(lines):
        errors = sum(
            word_errors(words(texts[name]), words(line["text"])) for name, line in lines.items()
        )
        return 100 * errors / sum(len(words(texts[name])) for name in lines)

    rates = {name: rate(lines) for name, lines in found.items()}
    with capsys.disabled():
        print("\n  WER %: " + ", ".join(f"{name} {value:.2f}" for name, value in rates.items()))
    assert rates["compact"] < 0.8 * rates["ctc_greedy"]
    assert rates["normal"] < 0.8 * rates["ctc_greedy"]
    assert rates["lexicon"] == pytest.approx(rates["normal"], abs=0.5)
