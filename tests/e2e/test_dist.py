"""The folder that `make dist` writes for other machines, with stand-ins for the program and its libraries."""

import os
import shutil
import subprocess

import pytest
from conftest import ROOT


@pytest.fixture
def wrapper(tmp_path):
    """wrapper(libtorch, **environment) starts the program by its wrapper; returns what it finds in LD_LIBRARY_PATH."""
    (tmp_path / "dist/bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/rtfx-wrapper.sh", tmp_path / "dist/bin/rtfx")
    program = tmp_path / "dist/bin/rtfx.bin"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
    program.chmod(0o755)

    def start(libtorch, **environment):
        kept = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        done = subprocess.run([tmp_path / "dist/bin/rtfx", "--libtorch", libtorch], env=kept | environment,
                              capture_output=True, text=True, check=True)  # fmt: skip
        return [os.path.normpath(folder) for folder in done.stdout.strip().split(":")]

    return start


def test_programs_that_the_program_starts_get_none_of_its_libraries(wrapper, tmp_path):
    """Only those of LibTorch, and CUDA's beside it as pip installs them."""
    libtorch = tmp_path / "site/torch"
    (libtorch / "lib").mkdir(parents=True)
    (libtorch / "lib/libtorch.so").touch()
    expected = [str(libtorch / "lib"), str(tmp_path / "site/nvidia/cu13/lib")]
    assert wrapper(libtorch) == expected
    assert wrapper(libtorch, LD_LIBRARY_PATH="/before") == [*expected, "/before"]
