"""kaldi-decoder, flashlight-text and riva-asrlib-decoder as decoders of rtfx. README.md says where
their graphs come from. The searches on the CPU run in processes of their own (workers.py).
"""

import math
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import graphs
import torch
from workers import Workers, cpus, flashlight_search, kaldi_search

SCALE = 1 / 0.55  # factor on ln p before the graph's costs are added, as in bench.py


def first_frames(labels, blank):
    """Returns the first frame of each run of a token."""
    return [i for i, label in enumerate(labels) if 0 <= label < blank and (i == 0 or label != labels[i - 1])]


def token_frames(spelled, labels, blank):
    """Returns the frames of the tokens that spell the words. All are 0 if the labels of the frames are other tokens.

    In the compact topology an equal token may follow without blank, so that one run of labels can be two tokens."""
    runs, frames = first_frames(labels, blank), []
    for token in spelled:
        following = frames[-1] + 1 if frames else len(labels)
        if runs and labels[runs[0]] == token:
            frames.append(runs.pop(0))
        elif following < len(labels) and labels[following - 1] == labels[following] == token:
            frames.append(following)
        else:
            return [0] * len(spelled)
    return [0] * len(spelled) if runs else frames


class Words:
    """Spells the words of a graph's search as tokens, by words.txt and lexicon.txt beside the graph."""

    def __init__(self, model, graph):
        folder, ids = Path(graph).parent, {piece: i for i, piece in enumerate(model.pieces)}
        self.blank, self.table, self.spelled = model.blank, graphs.word_table(folder), {}
        for line in (folder / "lexicon.txt").read_text(encoding="utf-8").splitlines():
            word, *own = line.split()
            if all(piece in ids for piece in own):
                self.spelled.setdefault(word, [ids[piece] for piece in own])

    def results(self, found):
        """Returns the results of `found`, which has (labels of the frames, words, score) of each row."""
        words = graphs.texts([words for _, words, _ in found], self.table)
        tokens = [[token for word in row for token in self.spelled[word]] for row in words]
        frames = [token_frames(own, labels, self.blank) for own, (labels, *_) in zip(tokens, found)]
        return tokens, frames, [score for *_, score in found]


class OnCpu:
    scale = 1.0

    def start(self, model, make, settings, processes):
        self.model = model
        pinning = (pin, unpin) if model.device.type == "cuda" else ()
        self.workers = Workers(make, settings, processes, *pinning)

    def decode(self, frames, lengths):
        log_probs = self.model.log_probs(frames) * self.scale
        shared = self.workers.room(log_probs.shape)
        torch.from_numpy(shared).copy_(log_probs)
        return self.workers.search(shared, lengths.tolist())


def pin(address, size):
    """Locks memory, so that the GPU copies to it directly. rtfx does this for its own searches on the CPU too."""
    torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(address, size, 0))


def unpin(address):
    torch.cuda.cudart().cudaHostUnregister(address)  # an error means that the driver is gone: the process ends


class Kaldi(OnCpu):
    """kaldi-decoder: the best path of Kaldi's FasterDecoder.

    `graph` is an OpenFst file whose input labels are columns of the emissions + 1. Kaldi's default of min_active is 20."""

    def __init__(self, model, graph, beam=17.0, max_active=10000, min_active=0, scale=SCALE, processes=None):
        self.versions = {"kaldi-decoder": version("kaldi-decoder"), "kaldifst": version("kaldifst")}
        self.scale = scale
        settings = {"graph": graph, "beam": beam, "max_active": max_active, "min_active": min_active}
        self.start(model, kaldi_search, settings, processes)
        self.results = Words(model, graph).results


class Flashlight(OnCpu):
    """flashlight-text: LexiconDecoder with KenLM. `lexicon` has lines of a word and its pieces, and may be a .gz file.

    It takes ln p unscaled. A weight of ln 10 / scale on KenLM's log10 gives the same balance. `threshold` is in scaled
    units, like the beam of rtfx's searches."""

    def __init__(self, model, lexicon, lm, beam=500, tokens=32, threshold=17.0, scale=SCALE, processes=None):
        self.versions = {"flashlight-text": version("flashlight-text")}
        settings = {"lexicon": lexicon, "lm": lm, "pieces": model.pieces, "beam": beam, "tokens": tokens,
                    "threshold": threshold / scale, "weight": math.log(10) / scale}  # fmt: skip
        self.start(model, flashlight_search, settings, processes)

    def results(self, found):
        runs = [first_frames(labels, self.model.blank) for labels, *_ in found]
        tokens = [[labels[i] for i in own] for own, (labels, *_) in zip(runs, found)]
        return tokens, runs, [score for *_, score in found]


class Riva:
    """riva-asrlib-decoder, on the GPU.

    The mode nbest returns the `nbest` best paths of its lattice, determinised on CPU threads. The mode online returns
    the best path as riva gives it. The mode online_end returns a path that is made to end in a final state (README.md).
    `graph` is an OpenFst file with words.txt and lexicon.txt beside it."""

    alive = []  # kept for good, since riva's destructors can hang

    def __init__(self, model, graph, mode="nbest", beam=17.0, nbest=1, max_active=10000, scale=SCALE, threads=None):
        from riva.asrlib.decoder import python_decoder as riva

        if mode not in ("nbest", "online_end", "online"):
            raise ValueError(f"mode: {mode!r}; allowed: nbest, online_end, online")
        if nbest > 1 and mode != "nbest":
            raise ValueError(f"nbest: {nbest}, but the mode {mode} returns one path; use the mode nbest")
        if model.device.type != "cuda":
            raise RuntimeError("riva-asrlib-decoder needs a GPU")
        self.versions = {"riva-asrlib-decoder": version("riva-asrlib-decoder")}
        self.model, self.mode, self.nbest, self.scale = model, mode, nbest, scale
        config = riva.BatchedMappedDecoderCudaConfig()
        config.n_input_per_chunk = 50
        own = config.online_opts
        own.decoder_opts.default_beam = beam
        own.decoder_opts.lattice_beam = 8.0
        own.decoder_opts.max_active = max_active
        own.decoder_opts.ntokens_pre_allocated = 1_000_000
        own.determinize_lattice = True
        own.max_batch_size = model.limits["max_batch"]
        own.num_channels = 2 * own.max_batch_size
        own.frame_shift_seconds = model.config["frame_seconds"]
        own.num_decoder_copy_threads = 2
        own.num_post_processing_worker_threads = threads or max(1, min(16, cpus()) - 2)
        own.use_final_probs = True
        post = own.lattice_postprocessor_opts
        post.acoustic_scale = post.lm_scale = 1.0
        post.word_ins_penalty, post.nbest = 0.0, nbest
        self.words = Words(model, graph)
        columns = model.vocabulary + 1
        if mode == "online_end":
            graph, columns = str(graphs.with_end(graph, columns)), columns + 1
        table = str(Path(graph).parent / "words.txt")
        if mode == "nbest":
            self.decoder = riva.BatchedMappedDecoderCuda(config, graph, table, columns)
        else:
            self.decoder = riva.BatchedMappedOnlineDecoderCuda(own, graph, table, columns)
        Riva.alive.append(self.decoder)

    def decode(self, frames, lengths):
        log_probs = (self.model.log_probs(frames) * self.scale).contiguous()
        self.lengths = lengths.tolist()
        if self.mode == "online_end":
            log_probs = self.with_end_frames(log_probs, lengths)
        torch.cuda.current_stream().synchronize()  # riva works on streams of its own
        if self.mode == "nbest":
            return self.decoder.decode_nbest(log_probs, lengths.cpu())
        more = graphs.FRAMES if self.mode == "online_end" else 0
        views = [log_probs[row, : length + more] for row, length in enumerate(self.lengths)]
        rows, every = list(range(len(views))), [True] * len(views)
        for row in rows:
            if not self.decoder.try_init_corr_id(row):
                raise RuntimeError("no free channel")
        return self.decoder.decode_batch(rows, views, every, every)[1]

    def with_end_frames(self, log_probs, lengths):
        """Appends END frames on the device, like graphs.with_end_frames(). END is impossible before a row's end, and
        the only label after it."""
        rows, frames, columns = log_probs.shape
        longer = torch.nn.functional.pad(log_probs, (0, 1, 0, graphs.FRAMES), value=graphs.NEVER)
        behind = torch.arange(frames + graphs.FRAMES, device=lengths.device) >= lengths[:, None]
        longer[behind] = graphs.NEVER
        longer[..., columns][behind] = 0
        return longer.contiguous()

    def results(self, found):
        """Returns the results, or lists of them where `nbest` is above 1."""
        lists = found if self.mode == "nbest" else [[path] for path in found]
        lists = [list(paths) or [None] for paths in lists]  # a search without an end has no path
        rows = [self.row(path, length) for paths, length in zip(lists, self.lengths) for path in paths]
        made = self.words.results(rows)
        return tuple(divided(values, map(len, lists)) for values in made) if self.nbest > 1 else made

    def row(self, path, length):
        """Returns (labels, words, score). `ilabels` are columns + 1, one for each frame."""
        labels = [label - 1 for label in getattr(path, "ilabels", []) if label > 0][:length]
        score = getattr(path, "score", 0.0)  # -inf in riva's online modes
        return labels, getattr(path, "words", []), score if math.isfinite(score) else 0.0


def divided(values, counts):
    """Divides `values` into consecutive lists, whose lengths are `counts`."""
    values = iter(values)
    return [list(islice(values, count)) for count in counts]
