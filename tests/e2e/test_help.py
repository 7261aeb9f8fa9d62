"""Tests that the command line describes itself: help, completion, the manual page and mistyped words."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

COMMANDS = ["run", "bench", "tune", "validate", "stream", "emissions", "lattice", "profile", "reproduce", "report",
            "compare", "gate", "verify", "export", "summary", "diff-runs", "rescore", "noise", "dashboard",
            "transcribe", "align", "graph",
            "list", "doctor", "inspect", "completion", "reference", "man"]  # fmt: skip


@pytest.mark.parametrize(
    "arguments, place, nearest",
    [
        (["rnu", "c.json"], "rtfx: unknown command 'rnu'", "run"),
        (["tramscribe"], "rtfx: unknown command 'tramscribe'", "transcribe"),
        (["nosuch", "--help"], "rtfx: unknown command 'nosuch'", ""),
        (["graph", "biuld", "-h"], "rtfx graph: unknown command 'biuld'", "build"),
        (["graph", "biuld"], "rtfx graph: unknown command 'biuld'", "build"),
        (["run", "c.json", "--ouptut", "x"], "rtfx run: unknown option '--ouptut'", "--output"),
        (["compare", "a", "--bse=b"], "rtfx compare: unknown option '--bse'", ""),
        (["list", "label_loping"], "list: unknown decoder or key 'label_loping'", "label_looping"),
        (["completion", "bsh"], "completion: unknown shell 'bsh'", "bash"),
    ],
)
def test_a_mistyped_word_is_met_with_the_nearest(rtfx, arguments, place, nearest):
    result = rtfx(*arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    assert place in result.stderr and "allowed: " in result.stderr
    assert (f"did you mean '{nearest}'?" in result.stderr) == bool(nearest)


def test_hidden_options_are_not_offered(rtfx):
    result = rtfx("run", "c.json", "--chidl")
    assert result.returncode == 2 and "unknown option '--chidl'" in result.stderr
    assert "--child" not in result.stderr and "--ended" not in result.stderr


def test_the_version_names_the_torch_in_use(program):
    torch = pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    assert f"LibTorch {torch.__version__.partition('+')[0]}" in text and "made with" not in text


def test_help_is_given_beside_a_mistyped_option(rtfx):
    result = rtfx("run", "--ouptut", "x", "--help")
    assert result.returncode == 0 and "--output" in result.stdout


def test_a_reader_who_has_enough_is_no_error(program):
    """A reader that closes the pipe early causes no error. Python would start the program with SIGPIPE ignored by
    default."""
    with subprocess.Popen([program, "man"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=False) as man:  # fmt: skip
        man.stdout.close()
        assert man.stderr.read() == b""
    assert man.returncode == 0


def test_list_of_one_decoder(rtfx):
    text = rtfx("list", "label_looping").stdout
    assert text.startswith("label_looping\n") and "window" in text and "frame_looping\n" not in text
    entry = json.loads(rtfx("list", "label_looping", "--json").stdout)
    assert entry["name"] == "label_looping" and entry["options"]


def test_list_of_keys_by_how_they_begin(rtfx):
    lines = rtfx("list", "protocol").stdout.splitlines()
    assert lines[0].startswith("protocol ") and all(line.startswith("protocol") for line in lines)
    (key,) = json.loads(rtfx("list", "protocol.seed", "--json").stdout)
    assert key["name"] == "protocol.seed" and key["default"] == 1


def test_help_shows_defaults(rtfx):
    text = " ".join(rtfx("profile", "--help").stdout.split())
    assert "--laps INT:1..1000000=3 " in text and "--graph-trace TEXT:{node,graph}=node" in text
    text = " ".join(rtfx("transcribe", "--help").stdout.split())
    assert "=fp32" in text and "--batch-size INT:NONNEGATIVE=0" in text
    for command in COMMANDS:
        assert not re.search(r"=(\s|\[\]|\"\")", rtfx(command, "--help").stdout.replace("KEY=VALUE", ""))


@pytest.mark.parametrize(
    "command, option",
    [("export", "--to"), ("rescore", "--scorer"), ("transcribe", "--format"), ("graph build", "--topology"),
     ("graph import", "--blank"), ("profile", "--graph-trace")],
)  # fmt: skip
def test_help_explains_each_choice(rtfx, complete, command, option):
    text = " ".join(rtfx(*command.split(), "--help").stdout.split())
    choices = complete(f"rtfx {command} {option} ")
    assert choices
    for choice in choices:
        assert re.search(rf"(?<![\w-]){re.escape(choice)}(, \w+)*: ", text), choice


def test_help_explains_what_may_differ(rtfx):
    journal = ROOT / "reports/baselines/ci.jsonl.gz"
    refused = rtfx("gate", journal, "--baseline", journal, "--allow", "nonsense")
    assert refused.returncode == 2
    text = " ".join(rtfx("gate", "--help").stdout.split())
    kinds = refused.stderr.strip().partition("allowed: ")[2].split(", ")
    assert len(kinds) > 1 and all(f" {kind}: " in text for kind in kinds), kinds


@pytest.fixture(scope="module")
def complete(rtfx, tmp_path_factory):
    """complete("rtfx ru") returns what bash offers with the cursor at the end of the line."""
    script = tmp_path_factory.mktemp("completion") / "rtfx"
    result = rtfx("completion", "bash")
    assert result.returncode == 0
    script.write_text(result.stdout)

    def offered(line):
        words = re.split(r"[ ]|(?==)|(?<==)", line)
        array = " ".join(f"'{word}'" for word in words)
        code = (
            f"set -u; source {script}; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _rtfx; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        result = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        assert result.returncode == 0 and not result.stderr, result.stderr
        return [word for word in result.stdout.split("\n") if word]

    return offered


def test_bash_completes_commands(complete):
    assert sorted(complete("rtfx ")) == sorted(COMMANDS)
    assert complete("rtfx ru") == ["run"]
    assert complete("rtfx graph ") == ["build", "import"]


def test_bash_completes_options_of_the_command(complete):
    assert complete("rtfx run c.json --thr") == ["--threads"]
    assert complete("rtfx graph build --to") == ["--topology", "--tokenizer"]
    assert complete("rtfx graph import --top") == []
    assert complete("rtfx compare --thr") == []
    assert not set(complete("rtfx run --")) & {"--child", "--ended"}


def test_bash_completes_values(complete):
    assert "label_looping" in complete("rtfx transcribe --decoder label")
    assert complete("rtfx bench --decoder ctc_greedy,frame") == ["ctc_greedy,frame_looping"]
    assert complete("rtfx profile c.json --graph-trace ") == ["node", "graph"]
    assert complete("rtfx profile c.json --graph-trace=gr") == ["graph"]
    assert complete("rtfx export run --to mark") == ["markdown"]
    assert complete("rtfx completion z") == ["zsh"]
    assert complete("rtfx bench --dtype fp") == ["fp32", "fp16", "fp8", "fp64"]
    assert complete("rtfx list metr") == ["metrics"]
    assert "label_looping_table1" in complete("rtfx reproduce label")
    assert complete("rtfx run ") == []  # bash then offers files
    assert complete("rtfx report run --baseline ") == []


@pytest.mark.parametrize("shell, check", [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_other_shells_read_their_scripts(rtfx, shell, check, tmp_path):
    script = tmp_path / f"_rtfx.{shell}"
    script.write_text(rtfx("completion", shell).stdout)
    text = script.read_text()
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)
    assert "label_looping" in text and "--child" not in text
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here: its script is not parsed")
    result = subprocess.run([shell, *check, script], capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_zsh_completes(rtfx, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("no zsh here")
    (tmp_path / "_rtfx").write_text(rtfx("completion", "zsh").stdout)
    code = f"""
    autoload -Uz compinit; compinit -u -d {tmp_path}/dump
    compadd() {{ shift; print -l -- "$@" }}; _files() {{ print FILES }}
    _describe() {{ print -l -- "${{(@P)argv[-1]}}" }}
    compset() {{ : }}
    source {tmp_path}/_rtfx
    try() {{ words=("$@"); CURRENT=$#words; _rtfx }}
    print 1; try rtfx ''; print 2; try rtfx profile c --graph-trace ''
    print 3; try rtfx run ''; print 4; try rtfx graph build --
    """
    result = subprocess.run(["zsh", "-fc", code], capture_output=True, text=True)
    first, second, third, fourth = re.split(r"^\d\n", result.stdout, flags=re.MULTILINE)[1:]
    assert {line.partition(":")[0] for line in first.split("\n") if line} >= {"run", "graph"}
    assert "graph" in second and "FILES" in third and "--topology:" in fourth


def test_the_manual_page(rtfx):
    page = rtfx("man").stdout
    if not shutil.which("groff"):
        pytest.skip("no groff here: the page is not rendered")
    command = ["groff", "-man", "-ww", "-Tutf8", "-rHY=0"]
    env = os.environ | {"GROFF_NO_SGR": "1"}
    result = subprocess.run(command, input=page, capture_output=True, text=True, env=env)
    assert result.returncode == 0 and not result.stderr, result.stderr
    text = re.sub(r".\x08", "", result.stdout)
    for command in COMMANDS:
        assert f"rtfx {command}" in text
    for option in ("--resume", "--graph-trace", "--smaller-is-better", "--att-context-size"):
        assert re.search(rf"{option}\b", text)
    assert "(default: node)" in text and "EXIT STATUS" in text and "--child" not in text
