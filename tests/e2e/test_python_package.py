"""Tests the tree's Python package with the built librtfx: a caller's mistake is an error, never a crash."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT

LIBRARY = PROGRAM.with_name("librtfx.so")
PLUGIN = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"
pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="no librtfx.so: `make build` makes it")
CHECKPOINTS = ROOT / "tests/data/checkpoints"
CLIPS = [str(AUDIO / name) for name in ("qs01.flac", "1737-146161-0006.flac")]

# All cases run in one process, which the fixture below starts. A crash in one would end them all.
REFUSED = {
    "no_clips": ("m.encode([])", "audio: no clips"),
    "no_rows": ("d(frames[:0], [])", "frames: a batch of 0 rows"),
    "copied_model": ("copy.copy(m)", "rtfx.Model cannot be copied or pickled; load the model in the other process"),
    "deep_copy": ("copy.deepcopy({'decoder': d})", "rtfx.Decoder cannot be copied"),
    "pickled": ("pickle.dumps(d(frames, lengths))", "rtfx.Hypotheses cannot be copied or pickled; hand over list("),
    "pickled_stream": ("pickle.dumps(d.streams().open())", "rtfx.Stream cannot be"),
    "copied_streams": ("copy.copy(d.streams())", "rtfx.FrameStreams cannot be"),
    "spawned": ("multiprocessing.get_context('spawn').Process(target=print, args=(m,)).start()", "rtfx.Model cannot be"),
    "path_of_bytes": ("rtfx.load(os.fsdecode(b'\\xff.nemo'))", "\udcff.nemo"),
    "audio_of_bytes": ("m.transcribe([os.fsdecode(b'\\xff.wav')])", "\udcff.wav"),
    "array_of_frames": ("d(frames.numpy(), lengths)", "frames: ndarray; give a torch tensor"),
    "list_of_frames": ("d(frames.tolist(), lengths)", "frames: list; give a torch tensor"),
    "meta_frames": ("d(frames.to('meta'), lengths)", "frames: a tensor without values"),
    "sparse_frames": ("d(frames.to_sparse(), lengths)", "frames: a tensor of layout torch.sparse_coo"),
    "nested_frames": ("d(torch.nested.nested_tensor([frames[0]], layout=torch.strided), lengths)", "frames: a nested tensor"),
    "quantized_frames": ("d(torch.quantize_per_tensor(frames, 0.1, 0, torch.qint8), lengths)", "frames: a quantized tensor"),
    "meta_audio": ("m.encode([torch.zeros(100, device='meta')])", "audio[0]: a tensor without values"),
    "sparse_audio": ("m.encode([torch.zeros(100).to_sparse()])", "audio[0]: a tensor of layout torch.sparse_coo"),
    "meta_piece": ("d.streams().open().push(frames[0].to('meta'))", "frames: a tensor without values"),
    "no_lengths": ("d(frames, ['two', 'three'])", "lengths: ['two', 'three']; give integers"),
    "relative_lengths": ("d(frames, [0.9])", "lengths: [0.9]; give integers"),
    "relative_lengths_tensor": ("d(frames, torch.tensor([1.0]))", "lengths: [1.0]; give integers"),
    "lengths_beyond_int64": ("d(frames, [2**64 + 1])", "lengths: 18446744073709551617 is out of range"),
    "sizes_beyond_int64": ("d.streams(2**64 + 1)", "batch_size and max_frames: 18446744073709551617 is out of range"),
    "rows_beyond_int64": ("m.transcribe(CLIPS, batch_size=2**64 + 1)", "batch_size: 18446744073709551617 is out of range"),
    "no_rows_asked": ("m.transcribe(CLIPS, batch_size=0)", "batch_size: 0; at least 1"),
    "half_a_row": ("m.transcribe(CLIPS, batch_size=0.5)", "batch_size: [0.5]; give integers"),
    "tokens_beyond_int32": ("m.words(rtfx.Hypothesis('', [2**32 + 1], [0], 0.0))", "tokens: 4294967297 is out of range"),
    "frames_beyond_int32": ("m.words(rtfx.Hypothesis('', [1], [2**31], 0.0))", "frames: 2147483648 is out of range"),
    "negative_durations": ("m.words(rtfx.Hypothesis('', [1], [0], 0.0, [-2**31 - 1]))", "durations: -2147483649 is out of"),
    "negative_word_frames": ("m.words(rtfx.Hypothesis('', [1], [0], 0.0, words=['a'], word_frames=[-1]))", "word_frames: -1"),
    "negative_frames": ("m.words(rtfx.Hypothesis('', [1], [-1], 0.0))", "frames: -1"),
    "word_of_half_a_character": ("m.words(rtfx.Hypothesis('', [1], [0], 0.0, words=['\\ud800'], word_frames=[0]))", "words: "),
    "word_with_nul": ("m.words(rtfx.Hypothesis('', [1], [0], 0.0, words=['a\\0b'], word_frames=[0]))", "has a NUL character"),
    "context_beyond_int32": ("rtfx.load(MODEL, att_context_size=[2**32 + 70, 1])", "att_context_size: 4294967366 is out"),
    "path_with_nul": ("rtfx.load(MODEL + '\\0.nemo')", "has a NUL character; leave it out"),
    "audio_with_nul": ("m.transcribe([CLIPS[0] + '\\0'])", "has a NUL character; leave it out"),
    "path_of_half_a_character": ("rtfx.load('\\ud800.nemo')", "give a text of Unicode characters"),
    "no_path": ("rtfx.load(7)", "path: 7; give a text"),
    "complex_frames": ("d(torch.complex(frames, frames).conj(), lengths)", "frames: ComplexFloat"),
    "decoder_of_another_model": ("rtfx.load(MODEL, device='cpu').transcribe(CLIPS, decoder=d)", "decoder: of another model"),
    "dtype": ("rtfx.load(MODEL, dtype=torch.float32)", "dtype: "),
    "nan_clip": ("m.transcribe([clip[:8000], clip, with_nan], batch_size=1)", "audio[2]: sample 7 is NaN"),
    "empty_clip": ("m.transcribe([*CLIPS, clip[:0]])", "audio[2]: no samples"),
    "texts_and_clips": ("m.align(CLIPS, 'henderson')", "text: 1 texts for 2 clips; give one for each"),
    "unspelled_text": ("m.align([clip], ['caf\u00df'])", "audio[0]: the model's vocabulary cannot spell '\u00df' in the word"),
    "no_such_head": ("m.align([clip], ['a'], head='joint')", "head: unknown head 'joint'"),
    "no_array_of_numpy": ("m.transcribe([type('Wave', (), {'__array_interface__': clip.numpy().__array_interface__})()])",
                          "audio[0]: Wave"),
    "none_in_place_of_texts": ("m.align([clip], None)", "text: None; give one text or several"),
    "bytes_in_place_of_a_text": ("m.align([clip], b'the')", "text[0]: b'the'; give a text"),
    "empty_path": ("m.transcribe([clip, ''])", "audio[1]: an empty path; name a file"),
    "nan_in_place_of_a_text": ("m.align([clip], [float('nan')])", "text[0]: nan; give a text"),
    "bytes_in_place_of_a_path": ("m.transcribe(CLIPS[0].encode())", "audio[0]: bytes; give a path as a text"),
    "nan_to_encode": ("m.encode([clip, with_nan])", "audio[1]: sample 7 is NaN"),
    "one_number_for_a_buffer": ("m.streams(buffer=2)", "buffer: 2; give numbers"),
    "text_in_a_buffer": ("m.streams(buffer=('a', 1, 2))", "buffer: 'a'; give a number"),
    "negative_pause": ("m.streams(pause=-1)", "pause: -1 seconds; give 0 to 3600"),
    "nan_pause": ("m.streams(pause=float('nan'))", "pause: nan seconds; give 0 to 3600"),
    "pause_of_text": ("m.streams(pause='long')", "pause: 'long'; give a number"),
    "no_piece": ("m.streams(end_tokens=['<EOX>'])", "end_tokens: the vocabulary has no token '<EOX>'"),
    "text_of_no_piece": ("m.streams(end_tokens='<EOX>')", "end_tokens: the vocabulary has no token '<EOX>'"),
    "piece_of_bytes": ("m.streams(end_tokens=[b'a'])", "end_tokens: b'a'; give a text"),
    "end_tokens_without_a_list": ("m.streams(end_tokens=None)", "end_tokens: None; give pieces of the vocabulary"),
    "no_detector": ("m.streams(vad='absent.jit')", "vad: absent.jit: no such file"),
    "model_as_detector": ("m.streams(vad=MODEL)", "is no TorchScript module"),
    "path_of_no_detector": ("m.streams(vad=7)", "vad: 7; give a text"),
    "no_silence": ("m.streams(vad_silence=0)", "vad_silence: 0 seconds; give 0.1 to 3600"),
    "long_silence": ("m.streams(vad_silence=4000)", "vad_silence: 4000 seconds; give 0.1 to 3600"),
    "context_without_a_list": ("rtfx.load(MODEL, att_context_size=70)", "att_context_size: 70; give integers"),
    "no_configuration": ("rtfx.run(None)", "config: None; give a file or a dict"),
    "set_of_phrases": ("m.transcribe(clip, boost={'phrases': {'new york'}})", "options: {'new york'} is of type set; give"),
    "nan_option": ("m.transcribe(clip, blank_penalty=float('nan'))", "options: Out of range float values"),
    "two_channels": ("m.transcribe([clip, torch.zeros(2, 100)])", "audio[1]: torch.float32 of shape (2, 100)"),
}
TRUE = {
    "reversed_view": "m.transcribe(clip.numpy()[::-1])[0].text == m.transcribe(clip.flip(0))[0].text",
    "list_of_floats": "m.transcribe(clip[:16000].tolist()) == m.transcribe(clip[:16000])",
    "strides_of_half_elements": "m.transcribe(packed(clip)) == m.transcribe(clip)",
    "big_endian": "m.transcribe(clip.numpy().astype('>f4')) == m.transcribe(clip)",
    "read_only": "quietly(lambda: m.transcribe(numpy.frombuffer(clip.numpy().tobytes(), 'f4'))) == m.transcribe(clip)",
    "aligned_words": "[(w.text, 0 <= w.confidence <= 1) for w in m.align(CLIPS[0], 'henderson went')[0].words] == "
                     "[('henderson', True), ('went', True)]",
    "aligned_clips": "[a.text for a in m.align([clip, CLIPS[1]], ['henderson', 'make one'], head='transducer')] == "
                     "['henderson', 'make one']",
    "numpy_option": "rtfx.decoder('alsd_pp', m, beam_size=numpy.int64(3)).options['beam_size'] == 3",
    "numpy_sizes": "d.streams(numpy.int32(2), numpy.int64(4)).open().push(frames[0]).text == d(frames, lengths)[0].text",
    "flag_of_numpy": "m.transcribe(clip[:16000], timestamps=numpy.True_) == m.transcribe(clip[:16000], timestamps=True)",
    "array_of_paths": "m.transcribe(numpy.array(CLIPS)) == m.transcribe(CLIPS)",
    "generator_of_rows": "m.streams(max_streams=4, fewer_rows=(rows for rows in [1, 2])) is not None",
    "rows_beside_nan": "rows_beside_nan()",
    "rows_beside_nan_in_nemo": "rows_beside_nan_in_nemo()",
    "all_characters_of_a_stream": "said_by(allowed=[]) == d(frames, lengths)[0].text != said_by()",
    "parts_end_with_the_audio": "parts_end_with_the_audio()",
    "handles_outlive_the_interpreter": "handles_outlive_the_interpreter()",
    "results_are_pickled": "pickle.loads(pickle.dumps(m.transcribe(CLIPS))) == m.transcribe(CLIPS)",
    "hypotheses_as_list": "copy.deepcopy(list(d(frames, lengths))) == list(d(frames, lengths))",
    "words_of_a_lexicon": "[w.text for w in m.words(dataclasses.replace(d(frames, lengths)[0], words=['A', 'b'], "
                          "word_frames=[2, 20]))] == ['A', 'b']",
    "times_do_not_drift": "most_frequent_shifts() == {0.0}",
    "threads_transcribe": "texts_of_threads()",
    "threads_search_streams": "pieces_of_threads(d.streams(64), frames[0].split(8), d(frames, lengths)[0].text)",
    "threads_stream_speech": "pieces_of_threads(m.streams(max_streams=8, buffer=(1, 3, 1)), clip.split(9000), "
                             "alone(m.streams(buffer=(1, 3, 1)), clip.split(9000)), 8)",
    "threads_and_faults": "faults_of_threads()",
    "threads_and_nan": "faults_of_threads(float('nan') * frames[0], rtfx.Error)",
    "an_interrupted_retry": "interrupted_retry()",
    "an_error_for_each_thread": "errors_of_joined_calls() == 3",
    "numpy_lengths": "d(frames, numpy.array(lengths))[0] == d(frames, lengths)[0]",
    "kinds_of_scores": "[rtfx.decoder('label_looping', m, score_kind=kind).score_kind for kind in ('logit', 'logprob')] == "
                       "['logit', 'logprob']",
    "counters_of_the_last_call": "0 < joint_calls(10) == joint_calls(10) < joint_calls(frames.shape[1])",
    "scores_of_rows": "d(frames, lengths).scores.tolist() == [d(frames, lengths)[0].score] != [0.0]",
    "list_of_alternatives": "alternatives(rtfx.decoder('alsd_pp', m, beam_size=4, nbest=3)(frames, lengths)[0])",
    "decoder_by_default": "[rtfx.decoder(None, model).name for model in (m, tdt, ctc)] == "
                          "['label_looping', 'label_looping', 'ctc_greedy'] and "
                          "list(rtfx.decoder(None, m)(frames, lengths)) == list(d(frames, lengths))",
    "kinds_of_models": "[(model.kind, model.blank, model.durations) for model in (m, tdt, ctc)] == "
                       "[('rnnt', 1024, []), ('tdt', 1024, [0, 1, 2, 3, 4]), ('ctc', len(ctc.pieces), [])]",
    "attention_context": "said_with([4, 0]) != said_with([]) == said_with([8, 3])",
    "last_frame_of_all": "m.words(rtfx.Hypothesis('', [1], [2**31 - 1], 0.0))[0].end > 2**31 * m.frame_seconds - 1e-3",
    "no_autocast": "under_autocast(lambda: m.encode(CLIPS[:1])[0].tolist()) == frames.tolist()",
    "no_autocast_in_decoders": "under_autocast(lambda: list(d(frames, lengths))) == list(d(frames, lengths))",
    "no_autocast_in_clips": "under_autocast(lambda: m.transcribe(CLIPS)) == m.transcribe(CLIPS)",
    "negated_frames": "list(d(negated(-frames), lengths)) == list(d(frames, lengths))",
    "negated_clip": "m.transcribe(negated(-clip)) == m.transcribe(clip)",
    "batch_sizes": "m.transcribe(CLIPS) == m.transcribe(CLIPS, batch_size=1) and same_texts(m.transcribe(CLIPS, batch_size=2))",
    "no_clips_at_all": "m.transcribe([]) == []",
    "results_of_the_others": "results_of_the_others()",
    "failures_of_a_decoder": "failures_of_a_decoder()",
    "a_stream_goes_on_after_nan": "said_in_a_stream([with_nan]) == said_in_a_stream([])",
    "a_nan_loses_no_other_utterance": "utterances_beside_nan()",
    "a_nan_loses_no_other_result": "finished_beside_nan()",
    "forked": "forked() == 'rtfx: not after os.fork(), since the parent has used it; start processes by spawn instead'",
    "forked_during_a_call": "forked_during_a_call() == forked()",
    "interrupted": "interrupted()",
    "interrupted_twice": "interrupted_twice()",
    "interrupted_as_it_begins": "interrupted_as_it_begins()",
}
SCRIPT = """
import collections, concurrent.futures, copy, dataclasses, json, multiprocessing, numpy, os, pathlib, pickle, shutil
import signal, sys, threading, time, torch, types, warnings, weakref, rtfx, rtfx.nemo
MODEL, TDT, CTC, STREAMING, CLIPS, PLUGIN, refused, true = json.loads(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background inherits that Ctrl-C is ignored
m = rtfx.load(MODEL, device="cpu")
tdt, ctc = (rtfx.load(path, device="cpu") for path in (TDT, CTC))
d = rtfx.decoder("label_looping", m)
frames, lengths = m.encode(CLIPS[:1])
clip = m.read_audio(CLIPS[0])
with_nan = clip[:9000].clone()
with_nan[7] = float("nan")

def joint_calls(count):
    d(frames[:, :count].contiguous(), [count])
    return d.counters["joint_calls"]

def alternatives(found):
    first = dataclasses.replace(found, nbest=[])
    return found.nbest[0] == first and len({tuple(one.tokens) for one in found.nbest}) == len(found.nbest) == 3

def said_with(context):
    return rtfx.load(STREAMING, device="cpu", att_context_size=context).transcribe(CLIPS)[0].hypothesis.tokens

def most_frequent_shifts():
    # How far a word of a stream of five minutes begins from the same word of the whole, in most words of each minute.
    clips = [m.read_audio(path) for path in sorted(pathlib.Path(CLIPS[0]).parent.glob("*.flac"))]
    audio = torch.cat([part for clip in 2 * clips for part in (clip, torch.zeros(8000))])
    stream = m.streams(buffer=(10, 10, 2)).open()
    for piece in audio.split(160_000):
        stream.push(piece)
    begins = collections.defaultdict(list)
    for word in stream.finish().words:
        begins[word.text].append(word.start)
    shifts = collections.defaultdict(list)
    for word in m.transcribe([audio], timestamps=True)[0].words:
        shift = min((begin - word.start for begin in begins[word.text]), key=abs, default=None)
        if shift is not None and abs(shift) < 5:
            shifts[word.start // 60].append(round(shift, 2))
    assert len(shifts) == 6 and min(map(len, shifts.values())) > 20
    return {collections.Counter(of_minute).most_common(1)[0][0] for of_minute in shifts.values()}

def on_threads(work, count=64):
    # The results of work(0), work(1), ..., and how often each function of the library was called.
    calls, original, barrier = collections.Counter(), rtfx.library.call, threading.Barrier(count)
    def counting(name, *arguments):
        calls[name] += 1
        return original(name, *arguments)
    def one(i):
        barrier.wait()
        return work(i)
    rtfx.library.call = counting
    try:
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count))), calls
    finally:
        rtfx.library.call = original

def texts_of_threads():
    expected = [t.text for t in m.transcribe(CLIPS)]
    found, calls = on_threads(lambda i: m.transcribe(CLIPS[i % 2])[0].text)
    # Those that wait while the first one works go together.
    return found == 32 * expected and calls["transcribe"] < 64

def alone(streams, pieces):
    stream = streams.open()
    for piece in pieces:
        stream.push(piece)
    return stream.finish().text

def pieces_of_threads(streams, pieces, expected, count=64):
    found, calls = on_threads(lambda _: alone(streams, pieces), count)
    pushes = calls["streams_push"] + calls["streams_push_frames"]
    return found == count * [expected] and 0 < pushes < count * len(pieces)

def faults_of_threads(bad=None, error=rtfx.InputError):
    # An error reaches the thread that made it alone, whatever it was computed with.
    bad = frames[0].double() if bad is None else bad
    streams = d.streams(64)
    opened = [streams.open() for _ in range(64)]
    def push(i):
        try:
            return opened[i].push(frames[0] if i % 8 else bad).text
        except error:
            return "refused"
    found, _ = on_threads(push)
    text = d(frames, lengths)[0].text
    return found == ["refused" if i % 8 == 0 else text for i in range(64)]

def interrupted_retry():
    # Ctrl-C while a thread tries three calls one by one ends its own call, and the others work for themselves.
    together, begun, held, alone = rtfx.together.Together(), threading.Event(), threading.Event(), []
    def work(requests):
        if requests == ["first"]:
            begun.set()
            held.wait()
        elif len(requests) > 1:
            raise rtfx.InputError("one of them")
        else:
            alone.append(requests)
            if len(alone) == 1:
                raise KeyboardInterrupt
        return requests
    def call(request):
        try:
            return together.call("key", request, work)
        except BaseException as error:
            return type(error).__name__
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(call, "first")
        begun.wait()
        others = [pool.submit(call, request) for request in "abc"]
        while len(together._waiting) < 3:
            time.sleep(0.001)
        held.set()
        found = [other.result() for other in others]
    return first.result() == "first" and sorted(found)[0] == "KeyboardInterrupt" and \
        sum(text == request for text, request in zip(found, "abc")) == 2

def rows_beside_nan():
    batch = frames.repeat(2, 1, 1)
    batch[0] = float("nan")
    found = d(batch, [*lengths, *lengths])
    try:
        found[0]
    except rtfx.Error as error:
        alone = d(frames, lengths)[0]
        return len(found) == 2 and found[1] == found[1:][0] and found[1].tokens == alone.tokens and "row 0: NaN" in str(error)

def rows_beside_nan_in_nemo():
    # A model and a class of hypotheses with the members of NeMo's that accelerate() uses.
    utils = "nemo.collections.asr.parts.utils.rnnt_utils"
    sys.modules[utils] = types.ModuleType(utils)
    sys.modules[utils].Hypothesis = types.SimpleNamespace
    decoding = types.SimpleNamespace(decoding=None, rnnt_decoder_predictions_tensor=None)
    model = types.SimpleNamespace(joint=torch.nn.Linear(1, 1), decoding=decoding, change_decoding_strategy=None,
                                  save_to=lambda path: shutil.copy(MODEL, path))
    batch, counts = frames.repeat(3, 1, 1), torch.tensor(3 * list(lengths))
    with rtfx.nemo.accelerate(model), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        (right,) = decoding.decoding(batch.transpose(1, 2), counts)
        batch[1] = float("nan")
        (found,) = decoding.decoding(batch.transpose(1, 2), counts)
    def said(row):
        return row.y_sequence.tolist(), row.timestamp.tolist()
    (warning,) = warned
    return said(found[0]) == said(found[2]) == said(right[0]) != said(found[1]) == ([], []) and \
        numpy.isnan([row.score for row in right + found]).tolist() == 4 * [False] + [True, False] and \
        "row 1: NaN" in str(warning.message)

def said_by(**bias):
    stream = rtfx.decoder("label_looping", m, allowed=["U+0061-U+006D"]).streams().open(**bias)
    stream.push(frames[0])
    return stream.finish().text

def parts_end_with_the_audio():
    # A stream in which no word can be found; its last frame ends after the audio.
    stream = m.streams(decode_again=2, buffer=(1, 2, 1), allowed=["U+0078-U+007A"]).open()
    stream.push(clip[:51369])
    ends = [part.end for part in stream.finish().decoded_again]
    return len(ends) > 0 and max(ends) <= 51369 / m.sample_rate

def handles_outlive_the_interpreter():
    # A daemon thread may still use a handle while the process ends.
    finalizers = [f for f in weakref.finalize._registry if (f.peek() or (None, None))[1] is rtfx.library.free]
    return len(finalizers) > 0 and not any(f.atexit for f in finalizers)

def packed(samples):
    # The samples as a field of records of five bytes.
    records = numpy.zeros(len(samples), [("sample", "f4"), ("flag", "u1")])
    records["sample"] = samples
    return records["sample"]

def errors_of_joined_calls():
    # Three threads that wait for the same work get an exception each, since each adds its traceback.
    together, begun, held = rtfx.together.Together(), threading.Event(), threading.Event()
    def work(requests):
        if requests == ["first"]:
            begun.set()
            held.wait()
            return requests
        raise rtfx.Error("all of them")
    def call(request):
        try:
            together.call("key" if request != "first" else "first", request, work)
        except rtfx.Error as error:
            return error
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pool.submit(call, "first")
        begun.wait()
        others = [pool.submit(call, request) for request in "abc"]
        while len(together._waiting) < 3:
            time.sleep(0.001)
        held.set()
        found = [other.result() for other in others]
    return len({id(error) for error in found if str(error) == "all of them"})

def under_autocast(work):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return work()

def negated(values):
    # Minus the values, as a view that shares their memory.
    view = torch.complex(torch.zeros_like(values), values).conj().imag
    assert view.is_neg()
    return view

def same_texts(found):
    return [t.text for t in found] == [t.text for t in m.transcribe(CLIPS)]

def results_of_the_others():
    try:
        m.transcribe([CLIPS[0], with_nan, "absent.wav", clip, clip[:0], torch.zeros(2, 5)], batch_size=2)
    except rtfx.TranscriptionInputError as error:
        text = m.transcribe(CLIPS[0])[0].text
        assert isinstance(error, rtfx.InputError) and isinstance(error, rtfx.TranscriptionError)
        assert [found and found.text for found in error.results] == [text, None, None, text, None, None]
        names = {1: "audio[1]: sample 7 is NaN", 2: "absent.wav: ", 4: "audio[4]: no samples", 5: "audio[5]: "}
        assert list(error.failures) == list(names)
        assert all(error.failures[i].startswith(name) for i, name in names.items()), error.failures
        assert str(error) == error.failures[1] + " (and 3 others of 6 clips; see `failures`)"
        again = pickle.loads(pickle.dumps(error))
        return (again.results, again.failures, str(again)) == (error.results, error.failures, str(error))

def failures_of_a_decoder():
    rtfx.load_plugin(PLUGIN)
    try:
        m.transcribe([clip, clip, clip], decoder="faulty", fault="throw_error", decodes=1, batch_size=1)
    except rtfx.TranscriptionError as error:
        assert [found is None for found in error.results] == [False, True, True]
        return not isinstance(error, rtfx.InputError) and list(error.failures) == [1, 2]

def said_in_a_stream(refused):
    stream = m.streams(buffer=(1, 5, 1)).open()
    stream.push(clip[:9000])
    for piece in refused:
        try:
            stream.push(piece)
        except rtfx.InputError as error:
            assert f"stream {stream.number}: sample 7 is NaN; " in str(error)
        else:
            return "not refused"
    stream.push(clip[9000:])
    return stream.finish()

def utterances_beside_nan():
    # A NaN in one utterance is an error for one call. The next call returns the other utterances of all its streams.
    streams = m.streams("ctc_greedy", max_streams=3, buffer=(1, 3, 1), pause=0.3)
    audio = torch.cat([clip, torch.zeros(64000)])
    alone = streams.open()
    expected = [utterance.text for utterance in alone.push(audio).ended]
    first, second = streams.open(), streams.open()
    first._ended.append(rtfx.Error("one with NaN"))
    try:
        streams.push({first: audio, second: audio})
    except rtfx.Error as error:
        found = streams.push({first: [], second: []})
        texts = [[utterance.text for utterance in found[stream].ended] for stream in (first, second)]
        return "NaN" in str(error) and len(expected) > 0 and texts == [expected, expected] and \
            streams.push({first: [], second: []})[first].ended == []

def finished_beside_nan():
    # A NaN in one of the utterances that finish() finds is an error for one call. The next call returns the others.
    streams = m.streams("ctc_greedy", max_streams=2, buffer=(1, 3, 1))
    whole, beside = streams.open(), streams.open()
    streams.push({whole: clip, beside: clip})
    beside._ended.append(rtfx.Error("one with NaN"))
    for expected in ("one with NaN", streams.finish(whole).text, "is not open"):
        try:
            found = beside.finish().text
        except rtfx.Error as error:
            found = str(error)
        if expected not in found or not found:
            return f"{found!r} instead of {expected!r}"
    return True

def forked_during_a_call():
    # A thread that the child does not have holds the turn.
    turn, ended = m._together.turn, threading.Event()
    def hold():
        with turn:
            held.set()
            ended.wait()
    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        return forked()
    finally:
        ended.set()
        thread.join()

def forked():
    # The text of the error in a child, which ends itself where it waits for ever.
    reader, writer = os.pipe()
    if os.fork() == 0:
        signal.alarm(60)
        try:
            d(frames, lengths)
        except rtfx.Error as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    return os.read(reader, 1000).decode()

def interrupted():
    # Ctrl-C ends a call of minutes at once, and the model goes on working.
    begin = time.monotonic()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        m.transcribe([clip] * 20000, batch_size=1)
    except KeyboardInterrupt:
        return time.monotonic() - begin < 10 and same_texts(m.transcribe(CLIPS))

def interrupted_twice():
    # The second Ctrl-C does not leave a batch behind that computes beside the next call.
    ended, original = [], rtfx.library.call
    def slow(name, *arguments):
        if name == "transcribe":
            time.sleep(2)
            ended.append(time.monotonic())
        return original(name, *arguments)
    rtfx.library.call = slow
    for seconds in (0.5, 1):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        m.transcribe(CLIPS)
    except KeyboardInterrupt:
        return len(ended) == 1 and time.monotonic() > ended[0]
    finally:
        rtfx.library.call = original

def interrupted_as_it_begins():
    # Ctrl-C can come after the thread has begun, and before the caller waits for it. It stops the work, and is raised
    # when that has ended. Work that has not begun never does.
    begun, found, late = threading.Event(), [], []
    class Executor(concurrent.futures.ThreadPoolExecutor):
        def submit(self, *work):
            super().submit(*work)
            begun.wait()
            raise KeyboardInterrupt
    class LateExecutor(Executor):
        def submit(self, *work):
            late.append(work)
            raise KeyboardInterrupt
    def work(stop):
        begun.set()
        deadline = time.monotonic() + 10
        while not stop.value and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.1)
        found.append(stop.value)
    original = rtfx.library.ThreadPoolExecutor
    try:
        for rtfx.library.ThreadPoolExecutor in (Executor, LateExecutor):
            try:
                rtfx.library.run_until_interrupted(work)
            except KeyboardInterrupt:
                found.append("raised")
    finally:
        rtfx.library.ThreadPoolExecutor = original
    function, *arguments = late[0]
    return function(*arguments) is None and found == [1, "raised", "raised"]

def quietly(work):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return work()

def outcome(code):
    try:
        return [None, str(eval(code))]
    except (rtfx.Error, TypeError) as error:
        return [[kind.__name__ for kind in type(error).__mro__], str(error)]
    except Exception as error:
        return [[], repr(error)]

if __name__ == "__main__":
    print(json.dumps({name: outcome(code) for name, code in {**refused, **true, "version": "rtfx.__version__", "about": "rtfx.version()"}.items()}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the folder of the package, laid out as if it were installed."""
    site = tmp_path_factory.mktemp("site")
    (site / "rtfx/lib").mkdir(parents=True)
    for path in (ROOT / "python/rtfx").iterdir():
        if path.is_file():
            (site / "rtfx" / path.name).symlink_to(path)
    (site / "rtfx/lib/librtfx.so").symlink_to(LIBRARY)
    return site


@pytest.fixture(scope="module")
def outcomes(site):
    """Returns {name: [names of the exception's classes or None, text]}."""
    (site / "cases.py").write_text(SCRIPT)
    refused = {name: code for name, (code, _) in REFUSED.items()}
    models = [MODELS / "quickstart-rnnt.nemo", MODELS / "quickstart-tdt.nemo", CHECKPOINTS / "tiny_hf_ctc",
              CHECKPOINTS / "tiny_streaming.nemo"]  # fmt: skip
    given = json.dumps([*map(str, models), CLIPS, str(PLUGIN), refused, TRUE])
    done = subprocess.run([sys.executable, site / "cases.py", given], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(site)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", REFUSED)
def test_a_fault_of_the_caller_is_an_error_that_names_it(outcomes, name):
    kinds, text = outcomes[name]
    assert REFUSED[name][1] in text
    assert ("TypeError" if "cannot be" in REFUSED[name][1] else "InputError") in kinds


@pytest.mark.parametrize("name", TRUE)
def test_it_holds(outcomes, name):
    assert outcomes[name] == [None, "True"]


def test_the_version_is_the_programs(outcomes, program):
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert outcomes["version"][1] in shown.split()
    assert outcomes["about"][1] == shown.strip()


def test_the_examples_of_the_page_run(site):
    """The examples of docs/python.md on models, tensors, streams and errors run. The others need NeMo or pandas."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    blocks = {section.partition("\n")[0]: re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
              for section in page.split("\n## ")}  # fmt: skip
    code = [blocks[section] for section in ("Models", "Decoders on tensors", "Live speech", "Errors")]
    assert all(code)
    done = subprocess.run([sys.executable, "-c", "\n".join(sum(code, []))], capture_output=True, text=True,
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": str(site)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Word(text=") > 5 and "{1: 'absent.wav: no such file; " in done.stdout


def test_the_command_starts_without_torch(site):
    """`rtfx` in the package starts without torch, which takes seconds to import and warns if NumPy is missing."""
    code = "import sys; sys.modules['numpy'] = None; from rtfx.program import main; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(site)})  # fmt: skip
    assert (done.stdout, done.stderr) == ("False\n", "")
