"""Streams live speech for hours, with clients that stop, leave and send garbage, and watches texts, times and memory.

    .venv/bin/python tests/support/soak.py --seconds 7200 --output runs/soak

Each client is a thread of one process and behaves in another way for each recording. Some play it in pieces of random
length, at the pace of real time. Others stop for a while, leave in the middle, forget their stream, or send values that
are not audio. One client streams recordings for an hour without an end. The program ends with 1 if a text differs from
that of a stream alone. It also ends with 1 if most words lie more than a frame from their place in more than a few
minutes, or if resident or allocated memory grows."""

from __future__ import annotations

import argparse
import collections
import ctypes
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build/release/librtfx.so"
GAP = 0.5  # seconds of silence between the recordings of the long stream
CHANCE = 0.05  # share of minutes that may have displaced words; words said twice cause few, a drift of time causes many


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=7200, help="how long, beyond the preparation")
    parser.add_argument("--model", type=Path, action="append", help="a .nemo checkpoint; again for several")
    parser.add_argument("--audio", type=Path, default=ROOT / "datasets/quickstart", help="folder of FLAC files")
    parser.add_argument("--clients", type=int, default=3, help="threads for each model")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds of audio in a second of time")
    parser.add_argument("--long", type=float, default=3600, help="seconds of the stream without an end")
    parser.add_argument("--growth", type=float, default=16, help="megabytes that memory may grow by after the first fifth")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/soak"), help="folder of soak.jsonl")
    return parser.parse_args(arguments)


def load_package() -> None:
    """Makes `import rtfx` find the package of the source tree, with the library that was built."""
    if not LIBRARY.exists():
        sys.exit(f"{LIBRARY.relative_to(ROOT)} is missing: `make build` makes it")
    site = Path(tempfile.mkdtemp(prefix="rtfx_site_"))
    (site / "rtfx/lib").mkdir(parents=True)
    for path in (ROOT / "python/rtfx").glob("*.py"):
        (site / "rtfx" / path.name).symlink_to(path)
    (site / "rtfx/lib/librtfx.so").symlink_to(LIBRARY)
    sys.path.insert(0, str(site))


def memory_mb() -> float:
    """Returns the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class HeapState(ctypes.Structure):
    """The result of glibc's mallinfo2(), in bytes of all arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]  # fmt: skip


def give_back() -> None:
    """Makes glibc return free memory to the system, so that resident memory is memory in use."""
    ctypes.CDLL(None).malloc_trim(0)


def allocated_mb() -> float:
    """Returns the memory in MB that this process has allocated from glibc and not freed."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = HeapState
    state = mallinfo2()
    return (state.uordblks + state.hblkhd) / 1e6


class Model:
    """A model, the streams that all its clients share, and the result of each recording in a stream alone."""

    def __init__(self, path: Path, audio: list[Path], clients: int):
        import rtfx

        self.name = path.stem
        self.model = rtfx.load(str(path), device="cpu")
        self.rate = self.model.sample_rate
        self.clips = [self.model.read_audio(str(file)) for file in audio]
        self.streams = self.model.streams(max_streams=4 * clients + 4, batch_size=2, buffer=(4, 4, 2))
        self.alone = [self.played(clip) for clip in self.clips]
        self.whole = self.model.transcribe(self.clips, timestamps=True)

    def played(self, clip: torch.Tensor):
        stream = self.streams.open()
        stream.push(clip)
        return stream.finish()


class Soak:
    """The state that all clients share: the time of the end, the count of each behaviour, and the failures."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.end = threading.Event()
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.lock = threading.Lock()

    def count(self, what: str, failure: str | None = None) -> None:
        with self.lock:
            self.counts[what] += 1
            if failure is not None:
                self.failures.append(f"{what}: {failure}")
                print(f"{what}: {failure}", file=sys.stderr, flush=True)

    def play(self, model: Model, stream, clip: torch.Tensor, rng: random.Random) -> bool:
        """Pushes a clip in pieces at the pace of speech. Returns whether the soak goes on."""
        begin, place = time.monotonic(), 0
        while place < len(clip):
            size = int(rng.choice([0, 1, 160, 4000, 16000, 40000]) * rng.uniform(0.5, 1.5))
            stream.push(clip[place : place + size])
            place += size
            if self.end.wait(max(0, begin + place / model.rate / self.args.pace - time.monotonic())):
                return False
        return True


def steady(soak: Soak, model: Model, index: int, rng: random.Random) -> str | None:
    """Plays a recording to its end, which must give the text of a stream alone."""
    stream = model.streams.open()
    if not soak.play(model, stream, model.clips[index], rng):
        stream.close()
        return None
    return differing(stream.finish(), model.alone[index])


def stopping(soak: Soak, model: Model, index: int, rng: random.Random) -> str | None:
    """Pauses for a while in the middle, which must not change the text."""
    clip, stream = model.clips[index], model.streams.open()
    middle = rng.randrange(len(clip))
    for part in (clip[:middle], clip[middle:]):
        if not soak.play(model, stream, part, rng) or soak.end.wait(rng.uniform(0, 10)):
            stream.close()
            return None
    return differing(stream.finish(), model.alone[index])


def leaving(soak: Soak, model: Model, index: int, rng: random.Random) -> None:
    """Closes its stream in the middle."""
    clip, stream = model.clips[index], model.streams.open()
    soak.play(model, stream, clip[: rng.randrange(len(clip))], rng)
    stream.close()


def forgetting(soak: Soak, model: Model, index: int, rng: random.Random) -> None:
    """Leaves its stream to the garbage collector."""
    clip = model.clips[index]
    soak.play(model, model.streams.open(), clip[: rng.randrange(len(clip))], rng)


def sending_garbage(soak: Soak, model: Model, index: int, rng: random.Random) -> str | None:
    """Sends values that are not audio. They must be refused, and the recording around them must give its text."""
    import rtfx

    clip, stream = model.clips[index], model.streams.open()
    middle = rng.randrange(len(clip))
    garbage = rng.choice(["text", None, torch.zeros(2, 100), torch.zeros(100, dtype=torch.complex64), b"RIFF", [[1.0]]])
    if not soak.play(model, stream, clip[:middle], rng):
        stream.close()
        return None
    try:
        stream.push(garbage)
        return f"took {garbage!r} as audio"
    except (rtfx.InputError, TypeError):
        pass
    if not soak.play(model, stream, clip[middle:], rng):
        stream.close()
        return None
    return differing(stream.finish(), model.alone[index])


def sending_bad_samples(soak: Soak, model: Model, index: int, rng: random.Random) -> str | None:
    """Sends a sample that is not a number, or larger than a model can take. Only this client may lose its text."""
    import rtfx

    bad = model.clips[index].clone()
    bad[rng.randrange(len(bad))] = rng.choice([float("nan"), float("inf"), 1e30])
    stream = model.streams.open()
    try:
        if soak.play(model, stream, bad, rng):
            stream.finish()
            return "took a sample that is no audio"
    except rtfx.InputError:
        pass
    finally:
        stream.close()
    return None


def sending_noise(soak: Soak, model: Model, index: int, rng: random.Random) -> None:
    """Sends loud noise, for which any text is right."""
    stream = model.streams.open()
    if soak.play(model, stream, torch.randn(len(model.clips[index])), rng):
        stream.finish()
    else:
        stream.close()


BEHAVIOURS = [steady, steady, stopping, leaving, forgetting, sending_garbage, sending_bad_samples, sending_noise]


def differing(found, wanted) -> str | None:
    return None if found.text == wanted.text else f"{found.text!r} instead of {wanted.text!r}"


def client(soak: Soak, model: Model, seed: int) -> None:
    rng = random.Random(seed)
    while not soak.end.is_set():
        behave, index = rng.choice(BEHAVIOURS), rng.randrange(len(model.clips))
        try:
            failure = behave(soak, model, index, rng)
        except Exception as error:
            failure = repr(error)
        soak.count(f"{model.name} {behave.__name__}", failure)


def long_client(soak: Soak, model: Model, seed: int) -> None:
    """Streams recordings for an hour, and compares the times of the words with those of each recording alone."""
    rng, silence = random.Random(seed), torch.zeros(int(GAP * model.rate))
    while not soak.end.is_set():
        stream, wanted, said = model.streams.open(), [], 0.0
        while said < soak.args.long:
            index = rng.randrange(len(model.clips))
            wanted += [(word.text, said + word.start) for word in model.whole[index].words]
            if not all(soak.play(model, stream, part, rng) for part in (model.clips[index], silence)):
                break
            said += len(model.clips[index]) / model.rate + GAP
        failure = shifted(stream.finish().words, [word for word in wanted if word[1] < said], model.model.frame_seconds)
        soak.count(f"{model.name} {said:.0f} s without an end", failure)


def shifted(found, wanted: list[tuple[str, float]], frame: float) -> str | None:
    """Returns a text about minutes in which most words lie more than a frame from their place, or in which no word was
    found; None if all is well."""
    begins = collections.defaultdict(list)
    for word in found:
        begins[word.text].append(word.start)
    shifts = collections.defaultdict(list)
    for text, start in wanted:
        shift = min((begin - start for begin in begins[text]), key=abs, default=None)
        if shift is not None and abs(shift) < 5:
            shifts[start // 60].append(shift)
    middles = {minute: statistics.median(of_minute) for minute, of_minute in sorted(shifts.items())}
    moved = [minute for minute, middle in middles.items() if abs(middle) > 1.01 * frame]
    if len(moved) > CHANCE * len(middles):
        return f"words of {len(moved)} of {len(middles)} minutes begin {middles[moved[0]]:+.2f} s from their place"
    missing = set(range(int(wanted[-1][1] // 60) if wanted else 0)) - {int(minute) for minute in shifts}
    return f"no word was found again in the minutes {sorted(missing)}" if missing else None


def grown(samples: list[tuple[float, float]]) -> float:
    """Returns the growth in megabytes between the medians of the second and of the last fifth of the time."""
    fifth = max(1, len(samples) // 5)
    second, last = samples[fifth : 2 * fifth] or samples[:1], samples[-fifth:]
    return statistics.median(mb for _, mb in last) - statistics.median(mb for _, mb in second)


def main(arguments: list[str] | None = None) -> int:
    args = parsed(arguments)
    load_package()
    torch.set_num_threads(1)
    audio = sorted(args.audio.glob("*.flac"))
    models = [Model(path, audio, args.clients) for path in args.model or [ROOT / "models/quickstart/quickstart-rnnt.nemo"]]
    soak = Soak(args)
    threads = [
        threading.Thread(target=client, args=(soak, model, 1000 * args.seed + 100 * place + number))
        for place, model in enumerate(models)
        for number in range(args.clients)
    ]
    threads += [threading.Thread(target=long_client, args=(soak, model, args.seed)) for model in models]
    args.output.mkdir(parents=True, exist_ok=True)
    begin, samples, allocated = time.monotonic(), [], []
    for thread in threads:
        thread.start()
    try:
        with (args.output / "soak.jsonl").open("w") as journal:
            while (now := time.monotonic() - begin) < args.seconds:
                kept = memory_mb()
                give_back()
                samples.append((now, memory_mb()))
                allocated.append((now, allocated_mb()))
                record = {"seconds": round(now, 1), "memory_mb": round(samples[-1][1], 1), "kept_mb": round(kept - samples[-1][1], 1),
                          "allocated_mb": round(allocated[-1][1], 1),
                          "files": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(),
                          "failures": len(soak.failures), "counts": dict(soak.counts)}  # fmt: skip
                journal.write(json.dumps(record) + "\n")
                journal.flush()
                time.sleep(min(10.0, args.seconds / 20))
    finally:
        soak.end.set()
        for thread in threads:
            thread.join()
    for what, count in sorted(soak.counts.items()):
        print(f"{count:7d}  {what}")
    for what, series in (("resident", samples), ("allocated", allocated)):
        print(f"{what} memory: {series[0][1]:.0f} MB at first, {series[-1][1]:.0f} MB at last, {grown(series):+.1f} MB since the second fifth")
    print(f"{len(soak.failures)} failures")
    return 1 if soak.failures or max(grown(samples), grown(allocated)) > args.growth else 0


if __name__ == "__main__":
    sys.exit(main())
