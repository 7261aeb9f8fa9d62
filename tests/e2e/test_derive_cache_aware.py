"""rtfx reads and streams a cache-aware checkpoint that was derived from an offline one, and it can be widened."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from conftest import AUDIO, MODELS, strict_records
from golden import searches, transcripts

torch = pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")
import derive_cache_aware as derive
import widen_checkpoint

TEACHER = MODELS / "quickstart-rnnt.nemo"
MANIFEST = AUDIO / "manifest.jsonl"
FILES = tuple(sorted(AUDIO.glob("*.flac")))[::4]
HEADS = ("frame_looping", "ctc_greedy")


@pytest.mark.parametrize("output, problem", [("none/a.nemo", "none: no such folder; make it first"), (".", "is a folder")])
def test_an_output_that_cannot_be_written_is_refused_before_the_training(tmp_path, monkeypatch, output, problem):
    monkeypatch.setattr(derive, "Checkpoint", lambda path: pytest.fail("the teacher was read"))
    with pytest.raises(SystemExit, match=problem):
        derive.main([str(TEACHER), str(tmp_path / output), str(MANIFEST)])


def test_held_out_utterances_without_a_text_are_counted(monkeypatch, capsys):
    """An utterance without a text leaves its batch in the rates, and an empty text is a reference without words."""
    used = [derive.Utterance(0, derive.RATE, text) for text in ("a b", None, "")]
    speech = Namespace(audio=torch.zeros(1), used=used, utterances=[*used, derive.Utterance(0, 1, "short")],
                       batches=lambda *_: [used], batch=lambda rows: (None, None))  # fmt: skip

    class Model:
        heads = Namespace(searches={"CTC": lambda *_: [["a"], ["x"], ["y"]]})

        def __call__(self, *_):
            return None, None

    monkeypatch.setattr(derive, "losses", lambda *_: {})
    derive.evaluate(Model(), Model(), speech, Namespace(batch_seconds=1, delay=0))
    first, teacher, *_ = capsys.readouterr().out.splitlines()
    assert first == "held out: WER of 2 of 4 utterances, 2 words"
    assert teacher == "held out, teacher: CTC WER 100.00 %"  # a missing word and one too many


@pytest.fixture(scope="module")
def derived(tmp_path_factory):
    """Derives a checkpoint in a few training steps on the quickstart recordings."""
    path = tmp_path_factory.mktemp("derived") / "streaming.nemo"
    sizes = "--steps 8 --batch-seconds 20 --learning-rate 3e-4 --delay 1".split()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # other tests run beside this one
    losses = derive.main([str(TEACHER), str(path), str(MANIFEST), *sizes])
    torch.set_num_threads(threads)
    assert len(losses) == 8
    return path


def student_of(path):
    checkpoint = derive.Checkpoint(path)
    student, prefix = derive.Student(checkpoint).eval(), "encoder."
    weights = {k.removeprefix(prefix): v for k, v in checkpoint.weights.items() if k.startswith(prefix)}
    student.encoder.load_state_dict(weights)
    return student


def words_of(head, batch):
    return [" ".join(words) for words in head(*batch)]


@pytest.fixture(scope="module")
def batch():
    speech = derive.Speech([MANIFEST], torch.device("cpu"))
    manifest = [json.loads(line) for line in MANIFEST.read_text().splitlines()]
    names = [Path(line["audio_filepath"]).name for line in manifest]
    rows = [speech.utterances[names.index(file.name)] for file in FILES]
    return speech.batch(rows)


@torch.no_grad()
def assert_equal_texts(heads, frames, path, context=()):
    """Asserts that the greedy searches in Python and those of rtfx find the same texts."""
    found = transcripts(path, searches(*HEADS), FILES, context)
    for name, head in zip(HEADS, (heads.transducer_words, heads.ctc_words), strict=True):
        texts = [found[name][file.name]["text"] for file in FILES]
        assert words_of(head, frames) == texts, name
        assert sum(map(len, texts)) > 50


def test_features_and_frames_of_the_teacher_are_those_of_rtfx(batch):
    teacher = derive.Teacher(derive.Checkpoint(TEACHER))
    with torch.no_grad():
        assert_equal_texts(teacher.heads, teacher(*batch), TEACHER)


def test_a_few_steps_lower_the_loss(derived, batch):
    checkpoint, context = derive.Checkpoint(TEACHER), derive.CONTEXTS[0]
    teacher, fresh = derive.Teacher(checkpoint), derive.Student(checkpoint)
    fresh.begin(teacher, *batch, context)

    @torch.no_grad()
    def loss(student):
        return derive.losses(teacher.heads, teacher(*batch), student(*batch, context), delay=1)

    before, after = loss(fresh), loss(student_of(derived))
    assert after.keys() == {"frames", "ctc", "transducer"}
    assert after["ctc"] < 0.7 * before["ctc"] and after["transducer"] < 0.9 * before["transducer"]


@pytest.mark.parametrize("context", [(70, 13), (68, 3), (70, 0)])
def test_rtfx_computes_the_student_s_frames(derived, batch, context):
    with torch.no_grad():
        frames = student_of(derived)(*batch, context)
    assert_equal_texts(derive.Heads(derive.Checkpoint(derived)), frames, derived, context)


def test_the_file_says_what_it_is(derived, rtfx):
    model = json.loads(rtfx("inspect", derived, "--json").stdout)
    assert model["stand_in"] == f"{TEACHER.name} made cache-aware by distillation"
    assert not model["notices"]
    text = rtfx("inspect", derived).stdout
    assert "chunked_limited [70,13]; offered: [70,13], [70,6], [68,3], [70,1], [70,0]" in text
    assert "causal down-sampling" in text and "(layer_norm)" in text and "normalize none" in text


@pytest.mark.parametrize("context, period", [([70, 13], 1120), ([68, 3], 320), ([70, 0], 80)])
def test_streams_find_the_words_of_whole_utterances(rtfx, config, derived, tmp_path, context, period):
    two = [str(AUDIO / f"1737-146161-000{i}.flac") for i in (7, 9)]
    lines = [{"audio_filepath": name, "text": "knit two together"} for name in two]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = config(
        models=[{"path": str(derived), "att_context_size": context}],
        datasets=[{"id": "two", "manifest": str(tmp_path / "two.jsonl")}],
        decoders=["label_looping", "ctc_greedy"],
        stream={"streams": [2], "seconds": 3, "period_ms": period, "scope": "speech", "quality": True},
    )
    result = rtfx("stream", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "stream"]
    assert len(records) == 2
    for record in records:
        assert record["streamed"]["tokens"] > 0 and record["streamed"]["different"] == 0
        quality = record["quality"]
        assert quality["streamed"] == quality["whole"]


def test_it_can_be_widened(derived, tmp_path):
    wide = tmp_path / "wide.nemo"
    widen_checkpoint.main([str(derived), str(wide), *"--d-model 288 --layers 10 --heads 8".split()])
    context = (70, 1)
    small, large = (transcripts(path, searches(*HEADS), FILES, context) for path in (derived, wide))
    for head in HEADS:
        for name, expected in small[head].items():
            assert large[head][name]["tokens"] == expected["tokens"], (head, name)


def test_the_student_s_frame_t_plus_delay_stands_beside_the_teacher_s_frame_t():
    frames, lengths = torch.arange(5.0).view(1, 5, 1), torch.tensor([5])
    wanted, found, mask = derive.aligned((frames, lengths), (frames + 10, lengths), delay=2)
    assert wanted.flatten().tolist() == [0, 0, 0, 1, 2]
    assert found.flatten().tolist() == [10, 11, 12, 13, 14] and mask.all()


@pytest.mark.parametrize(
    "model, message",
    [
        ("tiny_streaming", "encoder.conv_norm_type is layer_norm; give an offline model with batch_norm"),
        ("tiny_wpe", "encoder.subsampling is striding; give an offline model with dw_striding"),
    ],
)
def test_other_teachers_are_refused(tmp_path, model, message):
    path = MODELS.parents[1] / f"tests/data/checkpoints/{model}.nemo"
    with pytest.raises(SystemExit, match=f"derive_cache_aware: error: .*{message}"):
        derive.main([str(path), str(tmp_path / "out.nemo"), str(MANIFEST), "--steps", "1"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"text": "no audio"}', "m.jsonl:1: is no line of a manifest"),
        ('{"audio_filepath": "gone.flac"}', "gone.flac: "),
        (f'{{"audio_filepath": "{AUDIO}/qs01.flac", "duration": 0.1}}', "m.jsonl: no utterance of 0.5 to 20 s"),
    ],
)
def test_bad_manifests_are_named(tmp_path, line, message):
    (tmp_path / "m.jsonl").write_text(line + "\n")
    with pytest.raises(SystemExit, match=f"derive_cache_aware: error: .*{message}"):
        derive.main([str(TEACHER), str(tmp_path / "out.nemo"), str(tmp_path / "m.jsonl"), "--steps", "1"])
    assert not (tmp_path / "out.nemo").exists()


def test_errors_are_an_edit_distance():
    assert derive.errors("a b c d".split(), "a x c".split()) == 2
    assert derive.errors([], ["a"]) == 1 and derive.errors(["a"], []) == 1


def test_equal_tokens_that_blanks_divide_are_two(batch):
    heads = Namespace(blank=2, vocabulary=["a", "\u2581b"])
    heads.ctc = lambda frames: frames
    heads.text = lambda tokens: derive.Heads.text(heads, tokens)
    best = torch.tensor([[0, 0, 2, 0, 1, 1]])
    rows = torch.nn.functional.one_hot(best, 3)
    assert list(derive.Heads.ctc_words(heads, rows, torch.tensor([6]))) == [["aa", "b"]]
