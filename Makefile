# Every target sets up what it needs, on a bare Debian 12 or Ubuntu 24.04 too. `make help` lists them.
#
#   LIBTORCH=DIR      Use the LibTorch in DIR (with include/ and lib/) instead of installing torch.
#   CONFIG=FILE       `make bench` runs this configuration.
#   CHECKPOINT=FILE   `make microbench` loads this checkpoint; if empty, it loads none.
#   JSON=DIR          `make microbench` writes its results here as JSON.
#   ARGS=...          `make microbench` passes these on to Google Benchmark (--benchmark_filter=top_k).
#   PREFIX=DIR        `make install` installs the program here.
#   SECONDS=N         `make fuzz` runs each target for N seconds.
CONFIG ?= configs/quickstart.json
CHECKPOINT ?= data/shape_0.6b.nemo
PREFIX ?= /usr/local
SECONDS ?= 60
export LIBTORCH
# Threads that wait for each other by spinning take ten times as long on a machine that has other
# work too. Waiting in the kernel costs next to nothing on an idle machine.
export OMP_WAIT_POLICY ?= passive

VENV := .venv/bin
RTFX := build/release/rtfx

# Several targets of one call would install packages and build in the same folders at once. The build itself is parallel.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup program build bench check test microbench fuzz consumers dist wheel install format tidy clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup:  ## system packages (apt) and the Python environment .venv
	@scripts/setup.sh

program: setup  ## the program alone, in build/release
	@scripts/build.sh --target rtfx

build: setup  ## the program and all tests
	@scripts/build.sh

bench: program  ## run CONFIG and write its HTML report
	@scripts/bench.sh $(CONFIG)

check: setup  ## format, prose, structure, links and the C++ tests: half a minute
	@scripts/check.sh

test: build  ## all tests, and the checks of format and style
	@scripts/setup.sh --browser
	@scripts/test.sh

microbench: setup  ## micro-benchmarks (benchmarks/) of the parts of decoding, and loading CHECKPOINT
	@scripts/microbench.sh "$(CHECKPOINT)" "$(JSON)" $(ARGS)

fuzz: setup  ## fuzz the readers of binary formats (tests/fuzz), each for SECONDS
	@scripts/setup.sh --fuzz
	@scripts/fuzz.sh $(SECONDS)

consumers: setup  ## the programs that read our exports, for the tests that hand them our files
	@scripts/consumers.sh

dist: program  ## a folder that runs on other machines, in dist/rtfx
	@scripts/dist.sh

wheel: setup  ## the program and the Python package `rtfx` as a wheel, in dist
	@scripts/wheel.sh

install: program  ## the program and what plug-ins are built with, into PREFIX (/usr/local)
	@.venv/bin/cmake --install build/release --prefix $(PREFIX)

format: setup  ## lay out all sources with clang-format
	@scripts/format.sh

tidy: setup  ## clang-tidy on every source (half an hour on two cores the first time)
	@scripts/tidy.sh all

clean:  ## remove what was built; .venv and runs/ stay
	rm -rf build dist
