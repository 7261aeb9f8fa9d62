"""Writes reference arrays as small .npz files, which np.load() reads."""

import zipfile

import numpy as np


def save_npz(path, arrays):
    """Writes arrays as np.savez_compressed() does, but with LZMA, which packs floating-point numbers better than
    Deflate."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array)
