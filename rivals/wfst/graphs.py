"""Decoding graphs as OpenFst files: their word table, and the form that forces an end.

riva's online mode reports the best token, whether its state is final or not. After the last frame that token is often
inside a word, whose label has not been seen yet. with_end() turns every final state's cost into an arc with the label
END to one last state. A search that is given END as one more frame then ends in a final state if any is left, like all
other searches.
"""

from pathlib import Path

import numpy as np

NEVER = -1e4  # ln p of an impossible label; -inf would give NaN in sums
NOT_FINAL = 1e3  # cost of ending anywhere else: only where no final state is left
FRAMES = 2  # END frames: the best token that is reported may be of the frame before the last


def word_table(folder):
    lines = (Path(folder) / "words.txt").read_text(encoding="utf-8").splitlines()
    return {int(number): word for word, number in map(str.split, lines)}


SILENT = {"<eps>", "<unk>", "<s>", "</s>", "#0"}


def texts(rows, table):
    """Returns the words of each list of labels."""
    named = ([table[int(label)] for label in row if int(label)] for row in rows)
    return [[word for word in row if word not in SILENT] for row in named]


def with_end(path, columns):
    """Writes PATH.end.fst once. The emissions have `columns` columns, so END is label columns + 1."""
    import kaldifst

    path = Path(path)
    made = path.with_suffix(".end.fst")
    if made.exists() and made.stat().st_mtime >= path.stat().st_mtime:
        return made
    graph = kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(path)))
    label, states = columns + 1, graph.num_states
    last = graph.add_state()
    for state in range(states):
        cost = graph.final(state).value
        cost = cost if np.isfinite(cost) else NOT_FINAL
        graph.add_arc(state, kaldifst.StdArc(label, 0, cost, last))
        graph.set_final(state, float("inf"))
    graph.add_arc(last, kaldifst.StdArc(label, 0, 0.0, last))
    graph.set_final(last, 0.0)
    temporary = made.with_suffix(".part")
    graph.write(str(temporary))
    temporary.rename(made)
    return made


def with_end_frames(lp):
    """Turns [T, C] into [T + FRAMES, C + 1]: END is impossible before the end, and the only label behind it."""
    frames, columns = lp.shape
    longer = np.full((frames + FRAMES, columns + 1), NEVER, dtype=np.float32)
    longer[:frames, :columns] = lp
    longer[frames:, columns] = 0
    return longer
