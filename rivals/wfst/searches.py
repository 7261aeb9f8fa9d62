"""The searches. Each function decodes all utterances and returns (texts, seconds of each run, further figures).

Models, graphs and workers are made before the clock starts."""

import multiprocessing
import os
import threading
import time
from pathlib import Path

import graphs


def pool(search, make, count, processes):
    """Calls search(state, i) for 0 <= i < count in forked processes, which draw the next number from a shared counter.

    Long utterances come first. The time runs from a common start to the last result."""
    context = multiprocessing.get_context("fork")
    next_one, results = context.Value("i", 0), context.Queue()
    start = context.Barrier(processes + 1)

    def work():
        try:
            state = make()
            search(state, count // 2)  # warms up
            start.wait(300)
            own = []
            while True:
                with next_one.get_lock():
                    i = next_one.value
                    next_one.value += 1
                if i >= count:
                    break
                own.append((i, search(state, i)))
            results.put((time.perf_counter(), own, None))
        except threading.BrokenBarrierError:
            results.put((0, [], None))  # another worker failed, and reports its error
        except Exception as error:
            results.put((0, [], repr(error)))
            start.abort()

    workers = [context.Process(target=work, daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    started = True
    try:
        start.wait(300)
    except threading.BrokenBarrierError:
        started = False  # a worker failed; its error is read below
    begin, end, found = time.perf_counter(), 0.0, [None] * count
    for _ in workers:
        ended, own, error = results.get(timeout=3600)
        if error:
            raise RuntimeError(error)
        end = max(end, ended)  # the clock is one for all processes
        for i, value in own:
            found[i] = value
    if not started:
        raise RuntimeError("the searches did not start within 300 s")
    for worker in workers:
        worker.join()
    return found, end - begin


def kaldi(utterances, row, options):
    """Runs kaldi-decoder, which returns the best path of Kaldi's FasterDecoder."""
    import kaldi_decoder
    import kaldifst

    graph = kaldifst.StdConstFst.read(str(Path(options.graphs) / f"{row['graph']}.fst"))
    table = graphs.word_table(options.graphs)
    limits = kaldi_decoder.FasterDecoderOptions(
        max_active=options.max_active, min_active=row["min_active"], beam=row["beam"]
    )
    scaled = [u.lp * options.scale for u in utterances]

    def search(decoder, i):
        decoder.decode(kaldi_decoder.DecodableCtc(scaled[i]))
        found, best = decoder.get_best_path()
        return kaldifst.get_linear_symbol_sequence(best)[2] if found else []

    def make():
        return kaldi_decoder.FasterDecoder(graph, limits)

    rows, seconds = [], []
    for _ in range(options.runs):
        rows, taken = pool(search, make, len(utterances), row["processes"])
        seconds.append(taken)
    return graphs.texts(rows, table), seconds, {}


def flashlight(utterances, row, options):
    """Runs the LexiconDecoder of flashlight-text with KenLM.

    It takes ln p unscaled. A weight of ln 10 / scale on KenLM's log10 gives the same balance with the language
    model."""
    from flashlight.lib.text.decoder import (
        CriterionType,
        LexiconDecoder,
        LexiconDecoderOptions,
        SmearingMode,
        Trie,
    )
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    folder = Path(options.graphs)
    lines = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
    columns = {token: int(number) - 1 for token, number in map(str.split, lines)}
    lines = (folder / "lexicon.txt").read_text(encoding="utf-8").splitlines()
    spelled = {word: pieces for word, *pieces in map(str.split, lines)}
    for other in ("<unk>", "<spoken_noise>"):
        spelled.pop(other, None)
    dictionary = Dictionary()
    for word in sorted(spelled):
        dictionary.add_entry(word)
    dictionary.add_entry("<unk>")
    lm = KenLM(options.lm, dictionary)
    blank = utterances[0].lp.shape[1] - 1
    trie, start = Trie(blank + 1, 0), lm.start(False)
    for word, pieces in spelled.items():
        number = dictionary.get_index(word)
        trie.insert([columns[p] for p in pieces], number, lm.score(start, number)[1])
    trie.smear(SmearingMode.MAX)
    beam, tokens, threshold = row["beams"]
    limits = LexiconDecoderOptions(
        beam, tokens, threshold, 2.302585 / options.scale, 0.0, float("-inf"), 0.0, False,
        CriterionType.CTC,
    )  # fmt: skip
    unknown = dictionary.get_index("<unk>")

    def make():
        return LexiconDecoder(limits, trie, lm, blank, blank, unknown, [], False)

    def search(decoder, i):
        lp = utterances[i].lp
        best = decoder.decode(lp.ctypes.data, *lp.shape)
        return [dictionary.get_entry(n) for n in best[0].words if n >= 0] if best else []

    texts, seconds = [], []
    for _ in range(options.runs):
        texts, taken = pool(search, make, len(utterances), row["processes"])
        seconds.append(taken)
    return texts, seconds, {}


def riva(utterances, row, options):
    """Runs riva-asrlib-decoder on a GPU.

    The mode "online" takes the best path as riva gives it. The mode "online_end" makes it end in a final state
    (graphs.py). The mode "nbest" takes the best path of a lattice, with final costs."""
    import torch
    from riva.asrlib.decoder import python_decoder

    online, to_the_end = row["mode"].startswith("online"), row["mode"] == "online_end"
    config = python_decoder.BatchedMappedDecoderCudaConfig()
    config.n_input_per_chunk = 50
    own = config.online_opts
    own.decoder_opts.default_beam = row["beam"]
    own.decoder_opts.lattice_beam = 8.0
    own.decoder_opts.max_active = options.max_active
    own.decoder_opts.ntokens_pre_allocated = 1_000_000
    own.determinize_lattice = True
    own.max_batch_size, own.num_channels = row["batch"], 2 * row["batch"]
    own.frame_shift_seconds = 0.08
    own.num_decoder_copy_threads = 2
    own.num_post_processing_worker_threads = max(1, min(16, os.cpu_count()) - 2)
    own.use_final_probs = True
    post = own.lattice_postprocessor_opts
    post.acoustic_scale = post.lm_scale = 1.0
    post.word_ins_penalty, post.nbest = 0.0, 1
    graph = Path(options.graphs) / f"{row['graph']}.fst"
    columns = utterances[0].lp.shape[1]
    if to_the_end:
        graph, columns = graphs.with_end(graph, columns), columns + 1
    table = str(Path(options.graphs) / "words.txt")
    torch.zeros(1, device="cuda")
    if online:
        decoder = python_decoder.BatchedMappedOnlineDecoderCuda(own, str(graph), table, columns)
    else:
        decoder = python_decoder.BatchedMappedDecoderCuda(config, str(graph), table, columns)

    batches = []
    for begin in range(0, len(utterances), row["batch"]):
        lp = [u.lp * options.scale for u in utterances[begin : begin + row["batch"]]]
        lp = [torch.from_numpy(graphs.with_end_frames(x) if to_the_end else x) for x in lp]
        lengths = torch.tensor([len(x) for x in lp], dtype=torch.long)
        padded = torch.nn.utils.rnn.pad_sequence(lp, batch_first=True).cuda().contiguous()
        batches.append((padded, lengths, [padded[i, :n] for i, n in enumerate(lengths)]))

    def decode():
        rows = []
        for padded, lengths, views in batches:
            if not online:
                rows += [x[0].words if len(x) else [] for x in decoder.decode_nbest(padded, lengths)]
                continue
            ids, all_of_it = list(range(len(views))), [True] * len(views)
            for i in ids:
                if not decoder.try_init_corr_id(i):
                    raise RuntimeError("no free channel")
            rows += [x.words for x in decoder.decode_batch(ids, views, all_of_it, all_of_it)[1]]
        return [list(words) for words in rows]

    first, seconds, equal = decode(), [], True
    for _ in range(options.runs):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        rows = decode()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        equal = equal and rows == first
    free, total = torch.cuda.mem_get_info()
    about = {"runs_equal": equal, "gpu_used_gib": round((total - free) / 2**30, 2)}
    return graphs.texts(first, graphs.word_table(options.graphs)), seconds, about


SEARCHES = {"kaldi": kaldi, "flashlight": flashlight, "riva": riva}
