"""kaldi-decoder, flashlight-text and riva-asrlib-decoder as decoders of rtfx. README.md says where
their graphs come from. The searches on the CPU run in worker processes, which hold the graph and
take utterances one by one: their Python bindings let no two threads search at once.
"""

import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import graphs
import numpy as np
import torch

SCALE = 1 / 0.55  # of ln p beside the graph's costs, as bench.py has it


def collapsed(labels, blank):
    """Tokens and their frames of a label for each frame."""
    keep = [i for i, label in enumerate(labels) if 0 <= label < blank and (i == 0 or label != labels[i - 1])]
    return [labels[i] for i in keep], keep


def results(found, blank):
    """found: (labels of the frames, cost) of each row; labels None where nothing was found."""
    rows = [collapsed(labels or [], blank) for labels, _ in found]
    return [tokens for tokens, _ in rows], [frames for _, frames in rows], [-cost for _, cost in found]


class Workers:
    """Processes that search. make(**settings), called in each, gives search(lp) -> (labels, cost)."""

    def __init__(self, make, settings, processes):
        self.block = None
        before = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = "1"
        try:
            # Not forked: this process has threads, and maybe a GPU.
            processes = processes or os.cpu_count()
            self.pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"),
                                            start_worker, (make, settings))  # fmt: skip
            list(self.pool.map(is_ready, range(4 * processes)))
        finally:
            os.environ.pop("OMP_NUM_THREADS") if before is None else os.environ.update(OMP_NUM_THREADS=before)

    def __call__(self, log_probs, lengths):
        """log_probs [B, T, C] float32, lengths [B], both on the host."""
        self.room(log_probs.nbytes)
        shared = np.ndarray(log_probs.shape, np.float32, self.block.buf)
        shared[:] = log_probs
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        tasks = [(self.block.name, log_probs.shape, row, lengths[row]) for row in order]
        found = dict(zip(order, self.pool.map(search_row, tasks)))
        return [found[row] for row in range(len(lengths))]

    def room(self, size):
        if self.block is None or self.block.size < size:
            self.close()
            self.block = SharedMemory(create=True, size=size)

    def close(self):
        if self.block is not None:
            self.block.close()
            self.block.unlink()
            self.block = None

    def __del__(self):
        if hasattr(self, "pool"):
            self.pool.shutdown(wait=False)
            self.close()


state = {}  # of a worker


def start_worker(make, settings):
    torch.set_num_threads(1)
    try:
        state["search"] = make(**settings)
    except Exception as error:
        state["error"] = f"{type(error).__name__}: {error}"


def is_ready(_):
    if "error" in state:
        raise RuntimeError(f"a worker could not start: {state['error']}")


def search_row(task):
    name, shape, row, length = task
    if state.get("name") != name:
        state["name"], state["block"] = name, SharedMemory(name=name, track=False) if TRACKS else attached(name)
    lp = np.ndarray(shape, np.float32, state["block"].buf)[row, :length]
    return state["search"](np.ascontiguousarray(lp)) if length else ([], 0.0)


TRACKS = "track" in SharedMemory.__init__.__code__.co_varnames  # from Python 3.13 on


def attached(name):
    """Without this process's resource tracker, which would remove it."""
    from multiprocessing import resource_tracker

    register, resource_tracker.register = resource_tracker.register, lambda *_: None
    try:
        return SharedMemory(name=name)
    finally:
        resource_tracker.register = register


class OnCpu:
    scale = 1.0

    def start(self, model, make, settings, processes):
        self.model = model
        self.workers = Workers(make, settings, processes)

    def decode(self, frames, lengths):
        log_probs = self.model.log_probs(frames) * self.scale
        return self.workers(log_probs.cpu().numpy(), lengths.tolist())

    def results(self, found):
        return results(found, self.model.blank)


class Kaldi(OnCpu):
    """kaldi-decoder: Kaldi's FasterDecoder, best path. graph: an OpenFst file whose input labels are
    columns of the emissions + 1. min_active 20 is Kaldi's default."""

    def __init__(self, model, graph, beam=17.0, max_active=10000, min_active=0, scale=SCALE, processes=None):
        self.versions = {"kaldi-decoder": version("kaldi-decoder"), "kaldifst": version("kaldifst")}
        self.scale = scale
        settings = {"graph": graph, "beam": beam, "max_active": max_active, "min_active": min_active}
        self.start(model, kaldi_search, settings, processes)


def kaldi_search(graph, **limits):
    import kaldi_decoder
    import kaldifst

    fst = kaldifst.StdConstFst.read(graph)
    if fst is None:
        raise FileNotFoundError(graph)
    decoder = kaldi_decoder.FasterDecoder(fst, kaldi_decoder.FasterDecoderOptions(**limits))

    def search(lp):
        decoder.decode(kaldi_decoder.DecodableCtc(lp))
        found, best = decoder.get_best_path()
        if not found:
            return None, 0.0
        _, labels, _, cost = kaldifst.get_linear_symbol_sequence(best)
        return [label - 1 for label in labels], cost.value1 + cost.value2

    search.keeps = fst  # the decoder has no more than its address
    return search


class Flashlight(OnCpu):
    """flashlight-text: LexiconDecoder with KenLM. lexicon: lines of a word and its pieces. It takes
    ln p unscaled; the same balance is a weight of ln 10 / scale on KenLM's log10."""

    def __init__(self, model, lexicon, lm, beam=500, tokens=32, threshold=17.0, scale=SCALE, processes=None):
        self.versions = {"flashlight-text": version("flashlight-text")}
        settings = {"lexicon": lexicon, "lm": lm, "pieces": model.pieces, "beam": beam, "tokens": tokens,
                    "threshold": threshold, "weight": math.log(10) / scale}  # fmt: skip
        self.start(model, flashlight_search, settings, processes)


def flashlight_search(lexicon, lm, pieces, beam, tokens, threshold, weight):
    from flashlight.lib.text import decoder as f
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    blank, ids = len(pieces), {piece: i for i, piece in enumerate(pieces)}
    spelled = {}
    for line in Path(lexicon).read_text(encoding="utf-8").splitlines():
        word, *own = line.split()
        if all(piece in ids for piece in own) and word not in ("<unk>", "<spoken_noise>"):
            spelled[word] = [ids[piece] for piece in own]
    words = Dictionary()
    for word in sorted(spelled):
        words.add_entry(word)
    words.add_entry("<unk>")
    scorer = KenLM(lm, words)
    trie, start = f.Trie(blank + 1, 0), scorer.start(False)
    for word, own in spelled.items():
        index = words.get_index(word)
        trie.insert(own, index, scorer.score(start, index)[1])
    trie.smear(f.SmearingMode.MAX)
    limits = f.LexiconDecoderOptions(beam, tokens, threshold, weight, 0.0, float("-inf"), 0.0, False,
                                     f.CriterionType.CTC)  # fmt: skip
    decoder = f.LexiconDecoder(limits, trie, scorer, blank, blank, words.get_index("<unk>"), [], False)

    def search(lp):
        best = decoder.decode(lp.ctypes.data, *lp.shape)
        # A label for each frame, and silence before and after.
        return (list(best[0].tokens)[1:-1], -best[0].score) if best else (None, 0.0)

    search.keeps = trie, scorer, words
    return search


class Riva:
    """riva-asrlib-decoder, on the GPU. mode: nbest (the best path of its lattice, determinised on CPU
    threads), online_end (its best path, made to end in a final state: README.md), or online, as it
    is. graph: an OpenFst file; words.txt and lexicon.txt lie beside it."""

    def __init__(self, model, graph, mode="nbest", beam=17.0, max_active=10000, scale=SCALE, threads=None):
        from riva.asrlib.decoder import python_decoder as riva

        if mode not in ("nbest", "online_end", "online"):
            raise ValueError(f"mode: {mode!r}; allowed: nbest, online_end, online")
        if model.device.type != "cuda":
            raise RuntimeError("riva-asrlib-decoder needs a GPU")
        self.versions = {"riva-asrlib-decoder": version("riva-asrlib-decoder")}
        self.model, self.mode, self.scale = model, mode, scale
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
        own.num_post_processing_worker_threads = threads or max(1, min(16, os.cpu_count()) - 2)
        own.use_final_probs = True
        post = own.lattice_postprocessor_opts
        post.acoustic_scale = post.lm_scale = 1.0
        post.word_ins_penalty, post.nbest = 0.0, 1
        self.words = graphs.word_table(Path(graph).parent)
        self.spelled = spelling(Path(graph).parent / "lexicon.txt", model.pieces)
        columns = model.vocabulary + 1
        if mode == "online_end":
            graph, columns = str(graphs.with_end(graph, columns)), columns + 1
        table = str(Path(graph).parent / "words.txt")
        if mode == "nbest":
            self.decoder = riva.BatchedMappedDecoderCuda(config, graph, table, columns)
        else:
            self.decoder = riva.BatchedMappedOnlineDecoderCuda(own, graph, table, columns)

    def decode(self, frames, lengths):
        log_probs = self.model.log_probs(frames) * self.scale
        self.lengths = lengths.tolist()
        if self.mode == "nbest":
            return self.decoder.decode_nbest(log_probs.contiguous(), lengths.cpu())
        if self.mode == "online_end":
            log_probs = self.with_end_frames(log_probs, lengths)
        more = graphs.FRAMES if self.mode == "online_end" else 0
        views = [log_probs[row, : length + more] for row, length in enumerate(self.lengths)]
        rows, every = list(range(len(views))), [True] * len(views)
        for row in rows:
            if not self.decoder.try_init_corr_id(row):
                raise RuntimeError("no free channel")
        return self.decoder.decode_batch(rows, views, every, every)[1]

    def with_end_frames(self, log_probs, lengths):
        """As graphs.with_end_frames(), on the device: END is impossible before the end, and all
        there is after."""
        rows, frames, columns = log_probs.shape
        longer = torch.nn.functional.pad(log_probs, (0, 1, 0, graphs.FRAMES), value=graphs.NEVER)
        behind = torch.arange(frames + graphs.FRAMES, device=lengths.device) >= lengths[:, None]
        longer[behind] = graphs.NEVER
        longer[..., columns][behind] = 0
        return longer.contiguous()

    def results(self, found):
        """By the labels of the frames, where riva tells them; else the words, spelled, at frame 0."""
        tokens, frames, scores = [], [], []
        for length, item in zip(self.lengths, found):
            entry = (item[0] if len(item) else None) if self.mode == "nbest" else item
            labels = [label - 1 for label in getattr(entry, "ilabels", [])]
            if len(labels) == length:
                own, places = collapsed(labels, self.model.blank)
            else:
                words = graphs.texts([[] if entry is None else entry.words], self.words)[0]
                own = [piece for word in words for piece in self.spelled[word]]
                places = [0] * len(own)
            tokens.append(own)
            frames.append(places)
            scores.append(float(getattr(entry, "score", 0.0)))
        return tokens, frames, scores


def spelling(lexicon, pieces):
    """{word: tokens}, of the first line of each word."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    spelled = {}
    for line in lexicon.read_text(encoding="utf-8").splitlines():
        word, *own = line.split()
        if all(piece in ids for piece in own):
            spelled.setdefault(word, [ids[piece] for piece in own])
    return spelled
