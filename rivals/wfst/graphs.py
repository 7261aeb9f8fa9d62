"""Reads the word table of a decoding graph, and writes a form of the graph that forces an end.

riva's online mode reports the best token, whether its state is final or not. After the last frame that token is often
inside a word, whose label has not been seen yet. with_end() turns the cost of every final state into an arc with the
label END to one last state. The search is then given END as a further frame. So it ends in a final state if any is
left, like all other searches.
"""

from pathlib import Path

import numpy as np

NEVER = -1e4  # ln p of an impossible label; -inf would give NaN in sums
NOT_FINAL = 1e3  # cost of an end in any other state, so large that it counts only where no final state is left
FRAMES = 2  # number of END frames, since riva may report the best token of the frame before the last


def word_table(folder):
    lines = (Path(folder) / "words.txt").read_text(encoding="utf-8").splitlines()
    return {int(number): word for word, number in map(str.split, lines)}


SILENT = {"<eps>", "<unk>", "<s>", "</s>", "#0"}


def texts(rows, table):
    """Returns the words of each list of labels."""
    named = ([table[int(label)] for label in row if int(label)] for row in rows)
    return [[word for word in row if word not in SILENT] for row in named]


def with_end(path, columns):
    """Writes PATH.end.fst unless it exists, and returns its path. Emissions have `columns` columns, so END is the label
    columns + 1."""
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
    """Returns ln p [T + FRAMES, C + 1] for ln p [T, C]. END is impossible in the first T frames, and the only label in
    the others."""
    frames, columns = lp.shape
    longer = np.full((frames + FRAMES, columns + 1), NEVER, dtype=np.float32)
    longer[:frames, :columns] = lp
    longer[frames:, columns] = 0
    return longer
