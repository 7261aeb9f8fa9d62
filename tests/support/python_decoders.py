"""Decoders in Python for tests/e2e/test_python_decoder.py: good ones of every kind, and bad ones."""

import ctypes
import os
import platform
import signal
import subprocess
import sys
import time

import torch


def two_tokens(rows):
    return {"tokens": [[1, 2]] * rows, "frames": [[0, 3]] * rows, "scores": [-1.0] * rows}


class CtcGreedy:
    """Returns the results of ctc_greedy. `form` is "lists" with a tensor `nan` on the model's device, "elements" for
    lists with tensors of one score each, or "tensors" on the model's device."""

    def __init__(self, model, form="lists"):
        self.model, self.form = model, form
        self.versions = {"own": "1.5"}

    def decode(self, frames, lengths):
        scores, labels = self.model.log_probs(frames).max(-1)
        before = torch.nn.functional.pad(labels, (1, 0), value=-1)[:, :-1]
        inside = torch.arange(labels.shape[1], device=labels.device) < lengths[:, None]
        kept = inside & (labels != self.model.blank) & (labels != before)
        self.counters = {"tokens": int(kept.sum())}
        score = torch.where(inside, scores, 0).sum(1)
        if self.form != "tensors":
            rows = range(len(lengths))
            frames = [kept[row].nonzero()[:, 0] for row in rows]
            tokens = [labels[row][frames[row]].tolist() for row in rows]
            frames = [each.tolist() for each in frames]
            if self.form == "elements":
                return tokens, frames, list(score.split(1))
            return {"tokens": tokens, "frames": frames, "scores": score.tolist(), "nan": score.isnan()}
        order = (~kept).to(torch.int8).argsort(dim=1, stable=True)
        return {"tokens": labels.gather(1, order), "frames": order, "lengths": kept.sum(1), "scores": score}


class CtcGreedyInFp32(CtcGreedy):
    """Returns the results of ctc_greedy in fp32, and no token in other types."""

    def decode(self, frames, lengths):
        if frames.dtype == torch.float32:
            return super().decode(frames, lengths)
        return {"tokens": [[]] * len(lengths), "frames": [[]] * len(lengths), "scores": [0.0] * len(lengths)}


class TdtGreedy:
    """Greedy TDT, one row at a time."""

    def __init__(self, model):
        self.model = model

    def decode(self, frames, lengths):
        rows = [self.row(frames[b : b + 1], int(n)) for b, n in enumerate(lengths)]
        return dict(zip(("tokens", "frames", "scores", "durations"), zip(*rows)))

    def row(self, frames, length):
        model, found, score, t, symbols = self.model, [], 0.0, 0, 0
        encoded = model.project_encoder(frames)
        start = torch.full((1,), model.blank)
        output, state = model.predict(start, model.initial_state(1))
        while t < length:
            logits = model.joint(encoded[:, t], model.project_prediction(output))[0]
            value, label = logits[: model.blank + 1].max(0)
            step = model.durations[int(logits[model.blank + 1 :].argmax())]
            if int(label) == model.blank:
                t, symbols = t + max(1, step), 0
                continue
            found.append((int(label), t, step))
            score += float(value)
            output, state = model.predict(label[None], state)
            symbols += 1
            if step == 0 and symbols == model.max_symbols:
                step = 1
            t, symbols = t + step, 0 if step else symbols
        tokens, frames, durations = zip(*found) if found else ((), (), ())
        return list(tokens), list(frames), score, list(durations)


class NBest:
    """Returns two entries in the first row and one in the others, or with the form "arrays" two in each row. `form` is
    "lists", "tensors", or "arrays" for lists of tokens and a NumPy array of scores."""

    def __init__(self, model, form):
        self.form = form

    def decode(self, frames, lengths):
        rows = len(lengths)
        if self.form == "arrays":
            scores = torch.tensor([[-1.0, -2.0]] * rows).numpy()
            return [[[1, 2], [5]]] * rows, [[[0, 3], [2]]] * rows, scores
        if self.form == "lists":
            best, second = ([1, 2], [0, 3], -1.0), ([5], [2], -2.0)
            several = [[best, second], *[[best]] * (rows - 1)]
            return tuple([[entry[i] for entry in row] for row in several] for i in range(3))
        scores = torch.tensor([[-1.0, float("-inf")]] * rows)
        scores[0, 1] = -2
        return {"tokens": torch.tensor([[[1, 2], [5, 0]]] * rows), "scores": scores,
                "frames": torch.tensor([[[0, 3], [2, 0]]] * rows),
                "lengths": torch.tensor([[2, 1]] * rows)}  # fmt: skip


class Addresses:
    """Counts the addresses of the memory of frames and weights."""

    def __init__(self, model):
        self.model = model

    def decode(self, frames, lengths):
        weight = self.model.tensors["joint.joint_net.weight"]
        self.counters = {"frames": frames.data_ptr(), "weight": weight.data_ptr()}
        return two_tokens(len(lengths))


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("of its own")


COUNTERS = {
    "fraction_counter": {"x": 1.7},
    "large_counter": {"x": 2**70},
    "list_of_counters": [1, 2],
    "text_counter": {"x": "seven"},
    "numbered_counter": {1: 2},
}


class Faulty:
    def __init__(self, model, fault):
        self.model, self.fault = model, fault
        if fault == "in_constructor":
            raise ValueError("of its own")
        if fault == "boosted_numbers":
            self.boosted_words = [1, 2]
        if fault == "boosted_text":
            self.boosted_words = "one"
        if fault == "number_of_version":
            self.versions = {"own": 1.5}

    def decode(self, frames, lengths):
        fault, rows = self.fault, len(lengths)
        found = two_tokens(rows)
        if fault == "raises":
            raise KeyError("of its own")
        if fault == "sys_exit":
            sys.exit(3)
        if fault == "_exit":
            os._exit(0)
        if fault == "hangs":
            time.sleep(1000)
        if fault == "fewer_rows":
            return {name: values[:-1] for name, values in found.items()}
        if fault == "nan_score":
            found["scores"][-1] = float("nan")
        if fault == "token":
            found["tokens"] = [*found["tokens"][:-1], [1, self.model.vocabulary]]
        if fault == "negative":
            found["tokens"] = [*found["tokens"][:-1], [1, -1]]
        if fault == "backwards":
            found["frames"] = [*found["frames"][:-1], [1, 0]]
        if fault == "long_lengths":
            zeros = torch.zeros((rows, 2), dtype=torch.int32)
            found = {"tokens": zeros, "frames": zeros, "scores": torch.zeros(rows), "lengths": torch.full((rows,), 3)}
        if fault == "frame":
            found["frames"] = [*found["frames"][:-1], [0, 10**6]]
        if fault == "large":
            found["tokens"] = [*found["tokens"][:-1], [1, 2**32 + 5]]
        if fault == "fraction":
            found["tokens"] = [*found["tokens"][:-1], [1, 5.5]]
        if fault == "truth":
            found["tokens"] = [*found["tokens"][:-1], [1, True]]
        if fault == "large_tensor":
            found["tokens"] = [*found["tokens"][:-1], torch.tensor([1, 2**32 + 5])]
        if fault in ("large_tensors", "large_unsigned", "fraction_frames"):
            dtype = torch.uint64 if fault == "large_unsigned" else torch.int64
            found = {name: torch.tensor(values) for name, values in found.items()}
            found["lengths"] = torch.full((rows,), 2)
            if fault == "fraction_frames":
                found["frames"] = found["frames"] + 0.5
            else:
                found["tokens"] = torch.tensor([[1, 2]] * (rows - 1) + [[1, 2**32 + 5]], dtype=dtype)
        if fault == "fraction_frame":
            found["frames"] = [*found["frames"][:-1], [0, 0.5]]
        if fault == "many":
            found["tokens"] = [*found["tokens"][:-1], [1] * 200_000]
            found["frames"] = [*found["frames"][:-1], [0] * 200_000]
        if fault == "surrogate":
            raise ValueError("not text: \udcff")
        if fault == "unprintable":
            raise Unprintable
        if fault == "fraction_tensor":
            found["tokens"] = [*found["tokens"][:-1], torch.tensor([1, 5.5])]
        if fault == "uneven":
            found["frames"] = [*found["frames"][:-1], [0]]
        if fault in ("more_scores", "more_frames"):
            entries = {"tokens": [[1, 2], [3]], "frames": [[0, 1], [2]], "scores": [-1.0, -2.0]}
            found = {name: [values] * rows for name, values in entries.items()}
            name = fault.removeprefix("more_")
            found[name] = [*found[name][:-1], [*entries[name], entries[name][-1]]]
        if fault == "no_frames":
            del found["frames"]
        if fault == "nothing":
            return None
        if fault == "no_lengths":
            found["tokens"] = torch.zeros((rows, 2))
        if fault in COUNTERS:
            self.counters = COUNTERS[fault]
        return found


class Spoiler:
    """Changes memory or settings that other decoders use, and then returns a good result. If `what` ends in `_made`,
    the constructor makes the change."""

    def __init__(self, model, what):
        self.model, self.what, self.kept = model, what, []
        if what.endswith("_made"):
            getattr(self, what.removesuffix("_made"))(None, None)

    def decode(self, frames, lengths):
        found = two_tokens(len(lengths))
        if not self.what.endswith("_made"):
            getattr(self, self.what)(frames, lengths)
        return found

    def enter(self, scope):
        self.kept.append(scope)  # some scopes end when they are forgotten
        scope.__enter__()

    def weights(self, frames, lengths):
        self.model.tensors["joint.joint_net.weight"].zero_()

    def weights_by_numpy(self, frames, lengths):
        self.model.tensors["joint.pred.bias"].numpy()[:] = 1e9

    def weights_and_raises(self, frames, lengths):
        self.weights(frames, lengths)
        raise KeyError("of its own")

    def frames(self, frames, lengths):
        frames.zero_()

    def lengths(self, frames, lengths):
        lengths.fill_(1)

    def threads(self, frames, lengths):
        torch.set_num_threads(torch.get_num_threads() + 1)

    def autocast(self, frames, lengths):
        self.enter(torch.autocast("cpu", torch.bfloat16))

    def gradients(self, frames, lengths):
        torch.set_grad_enabled(True)

    def inference(self, frames, lengths):
        self.enter(torch.inference_mode(False))

    def rounding(self, frames, lengths):
        ctypes.CDLL("libm.so.6").fesetround({"x86_64": 0x800}.get(platform.machine(), 0x400000))

    def denormals(self, frames, lengths):
        torch.set_flush_denormal(True)

    def default_device(self, frames, lengths):
        torch.set_default_device("meta")

    def device_scope(self, frames, lengths):
        self.enter(torch.device("meta"))

    def default_dtype(self, frames, lengths):
        torch.set_default_dtype(torch.float64)

    def precision(self, frames, lengths):
        torch.set_float32_matmul_precision("medium")

    def folder(self, frames, lengths):
        os.chdir("/")

    def forks(self, frames, lengths):
        os.fork()


class Stops:
    """Stops the process in its second call, like Ctrl-Z, until another process wakes it after a second."""

    def __init__(self, model):
        self.calls = 0

    def decode(self, frames, lengths):
        self.calls += 1
        if self.calls == 2:
            subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        return two_tokens(len(lengths))


class Witness:
    """Counts the settings that it finds in its process."""

    def __init__(self, model):
        self.model = model

    def decode(self, frames, lengths):
        one, tiny = torch.ones(1, dtype=torch.float64).item(), torch.tensor(1e-40)
        found = {
            "threads": torch.get_num_threads(), "autocast": torch.is_autocast_enabled("cpu"),
            "gradients": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
            "device": torch.get_default_device().type == "cpu", "dtype": torch.get_default_dtype() == torch.float32,
            "precision": torch.get_float32_matmul_precision() == "highest", "denormals": bool(tiny * 1 != 0),
            "rounding": one + 2**-53 == one, "frames": sum(frames.view(torch.int32).flatten().tolist()) % 10**9,
            "lengths": int(lengths.sum()),
            "weights": sum(sum(w.view(torch.int32).flatten().tolist()) for w in self.model.tensors.values()) % 10**9,
        }  # fmt: skip
        self.counters = {name: int(value) for name, value in found.items()}
        return two_tokens(len(lengths))


class FailsAtItsEnd:
    """Changes settings that all decoders share when it is deleted."""

    def __init__(self, model):
        pass

    def decode(self, frames, lengths):
        return two_tokens(len(lengths))

    def __del__(self):
        torch.set_default_device("meta")
