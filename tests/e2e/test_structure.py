"""The architecture that the sources must keep: which folder knows which, and how long files get."""

import re

import pytest
from conftest import ROOT

FOLDERS = ["algorithms", "base", "datasets", "harness", "models"]
ARROWS = {
    "base": {"base"},
    "datasets": {"datasets", "base"},
    "models": {"models", "base"},
    "algorithms": {"algorithms", "models", "base"},
    "harness": {"harness", "algorithms", "models", "datasets", "base"},
}
# The layers of algorithms/ that its decoders share.
LAYERS = ["beam_hypotheses", "common", "cuda_graphs", "fused_beam", "ngram_lm", "wfst"]
SOURCES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".h", ".cpp", ".cu", ".cuh")
)


def includes(path):
    return re.findall(
        r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_there_are_sources():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_follow_the_arrows(folder):
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] == folder
        for name in includes(path)
        if name.split("/")[0] not in ARROWS[folder]
    ]
    assert not wrong


def test_a_decoder_includes_no_other_decoder():
    wrong = []
    for path in SOURCES:
        parts = path.relative_to(ROOT).parts
        if parts[0] != "algorithms":
            continue
        own = parts[1] if len(parts) > 2 else None
        for name in includes(path):
            target = name.split("/")
            folder = target[1] if target[0] == "algorithms" and len(target) > 2 else None
            if folder not in (*LAYERS, None, own):
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not wrong


def test_no_file_is_over_400_lines():
    scripts = [p for folder in ("plots", "scripts", "tests") for p in (ROOT / folder).rglob("*")]
    endings = (".py", ".sh", ".h", ".cpp", ".cu", ".j2")
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in [*SOURCES, *(p for p in scripts if p.suffix in endings)]
        if (lines := path.read_text(encoding="utf-8").count("\n")) > 400
    ]
    assert not long


def test_headers_are_guarded():
    assert not [p for p in SOURCES if p.suffix == ".h" and "#pragma once" not in p.read_text()]
