"""The Python side of the decoder `python`. It is part of the program, which calls the functions at the end.

It passes the model and the batches to a decoder's class, and makes tensors of the results.
docs/own_decoder.md describes such a class.
"""

import importlib
import importlib.util
import json
import operator
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.dlpack import from_dlpack, to_dlpack

# Standard output belongs to the program, so Python prints to standard error.
sys.stdout = sys.stderr
sys.argv = [*getattr(sys, "argv", []), "rtfx"][:1]
# A module's own copies of libraries (OpenFst, protobuf) come before those of the program.
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Model:
    """The loaded model: its settings, its tokenizer, and the weights of its heads, which are the
    program's own tensors. In shapes, B is the number of rows and V the number of tokens. D, P and H
    are the widths of encoder frames, prediction network and joint network.

    Attributes:

      kind        "ctc", "rnnt" or "tdt". A hybrid of transducer and CTC has the name of its transducer, which
                  may also be "multiblank" if the decoder uses the CTC head
      vocabulary  V; tokens are below it
      blank       id of blank, which is V
      durations   TDT: frames of each duration index; else []
      max_symbols most tokens at a frame (option `max_symbols`)
      limits      {"max_batch", "max_frames"}: upper bounds of the batches to come
      pieces      V strings: the tokens in the tokenizer's spelling
      config      further settings: prediction network, joint, seconds of an encoder frame
      tensors     {name: tensor}, by NeMo's names (`joint.joint_net`: the joint's last linear map;
                  `ctc`: the CTC head), in the dtype and on the device of the run
    """

    def __init__(self, settings, tensors):
        self.__dict__.update(settings)
        self.tensors = tensors
        weight = next(iter(tensors.values()))
        self.device, self.dtype = weight.device, weight.dtype

    def _linear(self, name, x):
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def log_probs(self, frames):
        """Returns the CTC log-probabilities [B, T, V + 1], float32, of frames [B, T, D]. Blank comes last."""
        return self._linear("ctc", frames).float().log_softmax(-1)

    def project_encoder(self, frames):
        """Projects encoder frames [..., D] for the joint network, to [..., H]."""
        return self._linear("joint.enc", frames)

    def project_prediction(self, output):
        """Projects outputs of the prediction network [..., P] for the joint network, to [..., H]."""
        return self._linear("joint.pred", output)

    def joint(self, encoder, prediction):
        """Returns the logits [..., V + 1] of projected inputs, which are broadcast against each other.
        TDT has [..., V + 1 + durations]."""
        hidden = ACTIVATIONS[self.config["joint_activation"]](encoder + prediction)
        return self._linear("joint.joint_net", hidden)

    def initial_state(self, batch):
        """Returns the state of B rows before the start symbol (blank), as a tuple of tensors. Rows are in
        dimension 1 (LSTM: h, c [layers, B, P]) or 0 (stateless: labels [B, context - 1], newest first)."""
        prediction = self.config["prediction"]
        if prediction["kind"] == "stateless":
            shape = (batch, prediction["context_size"] - 1)
            return (torch.full(shape, self.blank, dtype=torch.long, device=self.device),)
        shape = (prediction["layers"], batch, prediction["width"])
        return tuple(torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(2))

    def predict(self, labels, state):
        """Does one step of the prediction network for labels [B] int64. Returns (output [B, P], next state)."""
        prediction, weights = self.config["prediction"], self.tensors
        if prediction["kind"] == "stateless":
            longer = torch.cat([labels.unsqueeze(1), state[0]], 1)
            names = [f"decoder.prediction.embeds.{i}.weight" for i in range(longer.shape[1])]
            parts = [F.embedding(longer[:, i], weights[name]) for i, name in enumerate(names)]
            output = torch.cat(parts, 1)
            if prediction["layer_norm"]:
                output = F.layer_norm(output, (prediction["width"],))
            return output, (longer[:, :-1],)
        output = F.embedding(labels, weights["decoder.prediction.embed.weight"])
        states = []
        for i, (h, c) in enumerate(zip(*state)):
            names = [f"decoder.prediction.dec_rnn.lstm.{kind}_l{i}"
                     for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]  # fmt: skip
            states.append(torch.lstm_cell(output, (h, c), *(weights[name] for name in names)))
            output = states[-1][0]
        return output, tuple(torch.stack(part) for part in zip(*states))


class WrongRow(Exception):
    """A result that is wrong in one row."""

    def __init__(self, row, problem):
        super().__init__(problem)
        self.row = row


INT32, INT64 = torch.iinfo(torch.int32), torch.iinfo(torch.int64)


def are_integers(tensor):
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def int32_of(tensor):
    """Returns the tensor as int32. Values beyond int32 become its smallest or largest value, which the program
    refuses. A check here would wait for the device."""
    if tensor.dtype == torch.int32:
        return tensor
    return tensor.to(torch.int64).clamp(INT32.min, INT32.max).to(torch.int32)


def check_integers(name, row, values):
    """Raises WrongRow if int32 would change one of the values of a row, which are a list or a tensor. Integers of
    other libraries are allowed. `name` is tokens, frames or durations."""
    if torch.is_tensor(values):
        if len(values) and not are_integers(values):
            raise WrongRow(row, f"`{name}` is a tensor of {values.dtype}, not of integers")
        if values.is_cuda or values.dtype == torch.int32:
            return  # int32_of() and the program check these
        values = values.reshape(-1).tolist()
    if set(map(type, values)) == {int} and INT32.min <= min(values) and max(values) <= INT32.max:
        return  # the usual case, in a fraction of the time
    for i, value in enumerate(values):
        try:
            fits = not isinstance(value, bool) and INT32.min <= operator.index(value) <= INT32.max
        except TypeError:
            fits = False
        if not fits:
            raise WrongRow(row, f"{name[:-1]} {i} is {value!r}, which is no integer of 32 bits")


def padded(rows):
    """Returns lists of integers, or 1-D tensors, as one tensor [rows, longest] int32, padded with 0."""
    if any(torch.is_tensor(row) for row in rows):
        rows = [int32_of(torch.as_tensor(row).reshape(-1)) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    longest = max(map(len, rows), default=0)
    flat = [[*row, *[0] * (longest - len(row))] for row in rows]
    return torch.tensor(flat, dtype=torch.int32).reshape(len(rows), longest)


def is_list(score):
    """Returns whether a row's score is a list of scores, for example an array. A tensor of one element and an array
    without dimensions have a __len__ too, but count as numbers."""
    if torch.is_tensor(score) and score.numel() == 1:
        return False
    return hasattr(score, "__len__") and getattr(score, "ndim", 1) > 0


def of_lists(result):
    """Returns {name: tensor} for a result in lists, or in lists of lists if rows have several hypotheses."""
    scores, tokens = result["scores"], result["tokens"]
    rows = {name: len(result[name]) for name in ("tokens", "frames", "durations", "scores") if name in result}
    if len(set(rows.values())) > 1:
        raise TypeError(f"the result has {', '.join(f'{n} rows of {name}' for name, n in rows.items())}")
    if torch.is_tensor(scores) and scores.dim() > 1:
        scores = scores.tolist()
    several = not torch.is_tensor(scores) and any(map(is_list, scores))
    if several:
        for row, (own, texts) in enumerate(zip(scores, tokens)):
            if len(own) != len(texts):
                raise WrongRow(row, f"{len(texts)} hypotheses, but {len(own)} scores")
        entries = max(map(len, scores))
        missing = [entries - len(row) for row in scores]
        scores = [[*row, *[float("-inf")] * n] for row, n in zip(scores, missing)]
    slots = {}
    for name in ("tokens", "frames", "durations"):
        if name not in result:
            continue
        for row, (one, own) in enumerate(zip(result[name], tokens)):
            if several and len(one) != len(own):
                raise WrongRow(row, f"{len(own)} hypotheses, but {len(one)} lists of {name}")
            for a, b in zip(one, own) if several else [(one, own)]:
                if len(a) != len(b):
                    raise WrongRow(row, f"{len(b)} tokens, but {len(a)} {name}")
                check_integers(name, row, a)
        rows = result[name]
        if several:
            rows = [entry for row, n in zip(rows, missing) for entry in [*row, *[[]] * n]]
        slots[name] = padded(rows)
        if several:
            slots[name] = slots[name].reshape(len(scores), entries, -1)
    rows = [entry for row, n in zip(tokens, missing) for entry in [*row, *[[]] * n]] if several else tokens
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int32)
    if not torch.is_tensor(scores):
        scores = [[float(s) for s in row] for row in scores] if several else [float(s) for s in scores]
    scores = torch.as_tensor(scores, dtype=torch.float32)
    device = slots["tokens"].device
    return slots | {"lengths": lengths.reshape(scores.shape if several else -1).to(device),
                    "scores": scores.to(device)}  # fmt: skip


def tensors_of(result, batch):
    """Returns (description, [tensor, ...]) for the result that a decoder returned for `batch` rows."""
    if isinstance(result, (tuple, list)):
        result = dict(zip(("tokens", "frames", "scores", "durations"), result))
    if not hasattr(result, "items"):
        raise TypeError(f"the result is of type {type(result).__name__}, not a dict or a tuple")
    for name in ("tokens", "frames", "scores"):
        if name not in result:
            raise TypeError(f"the result has no `{name}`")
    given = {name: value for name, value in result.items() if value is not None}
    if not torch.is_tensor(given["tokens"]):
        lists = of_lists(given)
        if "nan" in given:
            lists["nan"] = torch.as_tensor(given["nan"]).to(lists["tokens"].device)
        given = lists
    elif "lengths" not in given:
        raise TypeError("the result has tensors without `lengths`")
    tokens = given["tokens"]
    wanted = {"scores": torch.float32, "nan": torch.bool}
    given.setdefault("nan", torch.zeros(batch, dtype=torch.bool, device=tokens.device))
    names = [n for n in ("lengths", "tokens", "frames", "durations", "scores", "nan") if n in given]
    tensors = [torch.as_tensor(given[n]).detach() for n in names]
    for name, tensor in zip(names, tensors):
        if name not in wanted and not are_integers(tensor):
            raise TypeError(f"`{name}` is a tensor of {tensor.dtype}, not of integers")
    tensors = [t.to(wanted[n]) if n in wanted else int32_of(t) for n, t in zip(names, tensors)]
    return {"names": names, "nbest": tokens.dim() == 3}, tensors


class Members:
    """Reads the optional members of a decoder. Raises a TypeError that names the member and the class if the
    program could not store the value."""

    def __init__(self, decoder):
        self.decoder = decoder

    def error(self, name, problem):
        return TypeError(f"`{name}` of {type(self.decoder).__name__} {problem}")

    def mapping(self, name, wanted):
        found = getattr(self.decoder, name, {})
        if not hasattr(found, "items"):
            raise self.error(name, f"is of type {type(found).__name__}, not a dict of {wanted}")
        for key in found:
            if not isinstance(key, str):
                raise self.error(name, f"has the name {key!r}, which is no text")
        return found

    def counters(self):
        counters = {}
        for name, value in self.mapping("counters", "integers").items():
            try:
                counters[name] = operator.index(value)
                fits = not isinstance(value, bool) and INT64.min <= counters[name] <= INT64.max
            except TypeError:
                fits = False
            if not fits:
                raise self.error("counters", f"has {name!r}: {value!r}, which is no integer of 64 bits")
        return counters

    def versions(self):
        versions = self.mapping("versions", "texts")
        for name, value in versions.items():
            if not isinstance(value, str):
                raise self.error("versions", f"has {name!r}: {value!r}, which is no text")
        return dict(versions)

    def boosted_words(self):
        words = getattr(self.decoder, "boosted_words", [])
        if isinstance(words, str) or not hasattr(words, "__iter__"):
            raise self.error("boosted_words", f"is of type {type(words).__name__}, not a list of words")
        words = list(words)
        for word in words:
            if not isinstance(word, str):
                raise self.error("boosted_words", f"has {word!r}, which is no text")
        return words


class Arm:
    """A decoder that the program has prepared."""

    def __init__(self, spec, tensors):
        if spec["path"]:
            folder = (Path(spec["file"]).parent / spec["path"]).resolve()
            if not folder.is_dir():
                raise FileNotFoundError(f"no such folder: '{folder}' (option `path`)")
            sys.path.insert(0, str(folder))
        module = load(spec)
        if not hasattr(module, spec["class"]):
            classes = [name for name, value in vars(module).items()
                       if isinstance(value, type) and value.__module__ == module.__name__]  # fmt: skip
            raise AttributeError(f"no class '{spec['class']}'; there are: {', '.join(classes)}")
        self.model = Model(spec["model"], dict(zip(spec["tensors"], tensors)))
        self.decoder = getattr(module, spec["class"])(self.model, **spec["options"])
        self.result = self.batch = None

    def about(self):
        versions = {"python": sys.version.split()[0], "torch": torch.__version__}
        return {
            "objects": hasattr(self.decoder, "objects"),
            "boosted_words": Members(self.decoder).boosted_words(),
            "versions": versions | Members(self.decoder).versions(),
        }

    def decode(self, frames, lengths):
        self.batch = len(lengths)
        self.result = self.decoder.decode(frames, lengths)
        if hasattr(self.decoder, "objects") and frames.is_cuda:
            torch.cuda.current_stream(frames.device).synchronize()  # so that the time of objects() starts here

    def objects(self):
        self.result = self.decoder.objects(self.result)

    def results(self):
        raw, self.result = self.result, None
        if hasattr(self.decoder, "results"):
            raw = self.decoder.results(raw)
        about, tensors = tensors_of(raw, self.batch)
        return about | {"counters": Members(self.decoder).counters()}, tensors


def load(spec):
    """Returns the module of a name or of a file. The folder of the file is searched for other modules."""
    if spec["module"]:
        return importlib.import_module(spec["module"])
    file = Path(spec["file"]).resolve()
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file):
            return module
    if str(file.parent) not in sys.path:
        sys.path.insert(1 if spec["path"] else 0, str(file.parent))  # `path` comes first
    found = importlib.util.spec_from_file_location(file.stem, file)
    module = sys.modules[file.stem] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]  # it is incomplete
        raise
    return module


def described(error):
    """Returns one line with the exception and the places where it came from, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):  # its text names the place
        frames = []
    places = [f"{Path(f.filename).name}:{f.lineno} in {f.name}"
              for f in reversed(frames) if f.filename != "rtfx/host.py"]  # fmt: skip
    try:
        text = " ".join(str(error).split()) or "no message"
    except Exception:  # its own __str__() raised
        text = "no message"
    return f"{type(error).__name__}: {text}" + (f" ({' < '.join(places)})" if places else "")


def to_json(about):
    """Returns JSON. Half of a surrogate pair is no character, so it becomes a question mark."""
    return json.dumps(about, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()


def failure(text, row=None):
    # Bytes that are no text become halves of surrogate pairs. These are spelled out, such as \udc80.
    return (to_json({"error": text.encode("utf-8", "backslashreplace").decode(), "row": row}),)


class DefaultDevice:
    """Puts back torch's default device, which belongs to the thread and not to a decoder."""

    def __enter__(self):
        self.device = torch.get_default_device()

    def __exit__(self, kind, error, places):
        found = torch.get_default_device()
        if found == self.device:
            return
        torch.set_default_device(None if self.device.type == "cpu" else self.device)
        raise RuntimeError(f"changed torch's default device from {self.device} to {found}; it was put back")


def answers(function):
    """Returns a function that calls `function` and takes and returns (text, capsules...). It returns an error as
    text."""

    def call(text, *capsules):
        try:
            with DefaultDevice():
                about, tensors = function(json.loads(text), *map(from_dlpack, capsules))
            return to_json(about), *map(to_dlpack, tensors)
        except WrongRow as error:
            return failure(str(error), error.row)
        except BaseException as error:  # sys.exit() too: it would end the program
            return failure(described(error))

    return call


arms = {}


@answers
def prepare(spec, *tensors):
    arm = Arm(spec, tensors)
    about = arm.about()
    arms[spec["arm"]] = arm  # the program releases an arm only if this function did not fail
    return about, []


@answers
def decode(arm, frames, lengths):
    arms[arm].decode(frames, lengths)
    return None, []


@answers
def objects(arm):
    arms[arm].objects()
    return None, []


@answers
def results(arm):
    return arms[arm].results()


@answers
def release(arm):
    arms.pop(arm, None)
    return None, []
