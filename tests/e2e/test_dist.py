"""Tests the folder that `make dist` writes for other machines, with stand-ins for the program and its libraries."""

import os
import shutil
import subprocess

import pytest
from conftest import ROOT


@pytest.fixture
def wrapper(tmp_path):
    """wrapper(libtorch, **environment) starts the program by its wrapper, and returns its LD_LIBRARY_PATH as a list."""
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
    """A program that rtfx starts finds only the libraries of LibTorch, and those of CUDA where pip put them beside
    it."""
    libtorch = tmp_path / "site/torch"
    (libtorch / "lib").mkdir(parents=True)
    (libtorch / "lib/libtorch.so").touch()
    expected = [str(libtorch / "lib"), str(tmp_path / "site/nvidia/cu13/lib")]
    assert wrapper(libtorch) == expected
    assert wrapper(libtorch, LD_LIBRARY_PATH="/before") == [*expected, "/before"]


def test_a_folder_of_something_else_is_not_deleted(tmp_path):
    (tmp_path / "mine").touch()
    done = subprocess.run([ROOT / "scripts/dist.sh", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and f"{tmp_path} holds something else" in done.stderr
    assert (tmp_path / "mine").exists()


def licences(folder, *libraries):
    (folder / "lib").mkdir()
    for name in libraries:
        (folder / "lib" / name).touch()
    return subprocess.run([ROOT / "scripts/licences.sh", folder], capture_output=True, text=True)


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no Debian packages")
def test_licences_of_libraries_and_headers_are_copied(tmp_path):
    done = licences(tmp_path, "libarchive.so.13", "libmp3lame.so.0")
    assert done.returncode == 0, done.stderr
    listed = (tmp_path / "licences/libraries.txt").read_text().partition("\n\n")[2].splitlines()
    owners = {library: owner for library, owner, _, _ in map(str.split, listed)}
    assert owners.keys() == {"libarchive.so.13", "libmp3lame.so.0"}
    for package in {*owners.values(), "libcli11-dev", "nlohmann-json3-dev"}:
        assert (tmp_path / "licences" / package).read_text() == open(f"/usr/share/doc/{package}/copyright").read()
    # The copyright file of libmp3lame refers to this licence text, which systems other than Debian lack.
    assert "GNU LIBRARY GENERAL PUBLIC LICENSE" in (tmp_path / "licences/LGPL-2").read_text()


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no Debian packages")
def test_a_library_without_a_licence_is_an_error(tmp_path):
    done = licences(tmp_path, "libof_nobody.so.1")
    assert done.returncode == 1 and "libof_nobody.so.1 is of no Debian package" in done.stderr
