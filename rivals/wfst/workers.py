"""Runs CTC searches on the CPU in worker processes, which hold the graph and decode utterances one by one.

The Python bindings of these packages do not let two threads search at once. The workers do not import torch, which
would delay each start by seconds.
"""

import gzip
import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.shared_memory import SharedMemory

import numpy as np


def cpus():
    """Returns how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


class Workers:
    """A pool of processes. Each calls make(**settings), which returns search(lp) -> (labels of the frames, words,
    score). pin(address, size) is called when shared memory is created, and unpin(address) before it is closed."""

    def __init__(self, make, settings, processes, pin=None, unpin=None):
        self.block, self.pin, self.unpin = None, pin, unpin
        before = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = "1"
        try:
            # The workers are not forked, since this process has threads and maybe a GPU.
            processes = processes or cpus()
            self.pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"),
                                            start_worker, (make, settings))  # fmt: skip
            list(self.pool.map(is_ready, range(4 * processes)))
        finally:
            os.environ.pop("OMP_NUM_THREADS") if before is None else os.environ.update(OMP_NUM_THREADS=before)

    def room(self, shape):
        """Returns shared memory for log-probabilities of this shape, [B, T, C] float32. The next call overwrites it."""
        size = 4 * math.prod(shape)
        if self.block is None or self.block.size < size:
            self.close()
            self.block = SharedMemory(create=True, size=size)
            self.address = np.ndarray(1, np.uint8, self.block.buf).ctypes.data
            if self.pin:
                self.pin(self.address, self.block.size)
        return np.ndarray(shape, np.float32, self.block.buf)

    def search(self, log_probs, lengths):
        """Searches the log-probabilities that are in room(), with lengths [B] on the host."""
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        tasks = [(self.block.name, log_probs.shape, row, lengths[row]) for row in order]
        found = dict(zip(order, self.pool.map(search_row, tasks)))
        return [found[row] for row in range(len(lengths))]

    def close(self):
        if self.block is not None:
            block, self.block = self.block, None
            block.unlink()  # comes first, since the rest may fail while the process ends
            if self.unpin:
                self.unpin(self.address)
            block.close()

    def __del__(self):
        if hasattr(self, "pool"):
            self.pool.shutdown(wait=False)
            self.close()


NOTHING = ([], [], 0.0)
state = {}  # a worker's search or error, and the shared memory that it has open


def start_worker(make, settings):
    os.nice(19)  # so the process that hands out rows does not wait for a CPU, which would make rounds suspect
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
    return state["search"](np.ascontiguousarray(lp)) if length else NOTHING


TRACKS = "track" in SharedMemory.__init__.__code__.co_varnames  # true from Python 3.13 on


def attached(name):
    """Opens shared memory without this process's resource tracker, which would remove it."""
    from multiprocessing import resource_tracker

    register, resource_tracker.register = resource_tracker.register, lambda *_: None
    try:
        return SharedMemory(name=name)
    finally:
        resource_tracker.register = register


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
            return NOTHING
        _, labels, words, cost = kaldifst.get_linear_symbol_sequence(best)
        return [label - 1 for label in labels], list(words), -(cost.value1 + cost.value2)

    search.keeps = fst  # the decoder keeps only its address
    return search


def flashlight_search(lexicon, lm, pieces, beam, tokens, threshold, weight):
    from flashlight.lib.text import decoder as f
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    blank, ids = len(pieces), {piece: i for i, piece in enumerate(pieces)}
    spelled = {}
    with gzip.open(lexicon, "rt", encoding="utf-8") if lexicon.endswith(".gz") else open(lexicon, encoding="utf-8") as lines:
        entries = [line.split() for line in lines]
    for word, *own in entries:
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
        # There is a label for each frame, and silence before and after.
        return (list(best[0].tokens)[1:-1], [], best[0].score) if best else NOTHING

    search.keeps = trie, scorer, words
    return search
