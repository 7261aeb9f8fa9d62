"""Other people's decoders (rivals/), where their environments were made: rivals/environment.sh NAME."""

import json
import os

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, small_config, strict_records
from forked_script import script


def compared(rtfx, tmp_path, rival, model="quickstart-rnnt", **changes):
    """{decoder: record} of a run beside `rival`'s decoders on a CPU."""
    python = ROOT / "rivals" / rival / ".venv/bin/python"
    if not python.exists():
        pytest.skip(f"{rival} is not installed: rivals/environment.sh {rival}")
    config = small_config(models=[str(MODELS / f"{model}.nemo")], **changes)
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
    assert runs["Beam"]["counters"]["objects_us"] > 0
    table = script("plots/rival_table.py", tmp_path / "run").stdout
    version = runs["Greedy"]["decoder"]["options"]["versions"]["nemo"]
    assert f"| Greedy (nemo {version}) |" in table
    assert table.count("NeMo's fastest / our fastest") == 2  # whole call; algorithm alone


def test_torchaudio(rtfx, tmp_path):
    file = "torchaudio/torchaudio_decoders.py"
    runs = compared(rtfx, tmp_path, "torchaudio", decoders=["frame_looping", rival("RnntBeam", file)],
                    datasets=[{"id": "one", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 1}])  # fmt: skip
    assert runs["RnntBeam"]["wer"]["wer"] <= runs["frame_looping"]["wer"]["wer"]
