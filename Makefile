# mercer: `make demo` and `make test` need only Python >= 3.11, a C++20 compiler and a way to install from PyPI.

PYTHON ?= python3
VENV ?= .venv
PIP = python -m pip --disable-pip-version-check
BIN = $(VENV)/bin

# Whatever ends up in the installed package. Folders count too, so that a deleted file is noticed.
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
           $(shell find src native -name __pycache__ -prune -o -not -name '*.so' -print)
NATIVE := $(shell find native -name '*.cpp' -o -name '*.hpp')
DEMO = build/demo

.PHONY: demo test-fast test test-arrays test-lowest check counts test-slow bench bench-search bench-loo bench-linear bench-shapes bench-scale bench-structured bench-full docs asan tsan generic wheel dev format clean
.SECONDARY: # keeps the stamps that only other stamps ask for
ifndef AT_ONCE
.NOTPARALLEL: # two installations into one environment would disturb each other
endif

demo: $(VENV)/.mercer
	rm -rf $(DEMO)
	$(BIN)/python examples/breast_cancer_table.py $(DEMO)/breast_cancer.csv
	$(BIN)/mercer study $(DEMO)/breast_cancer.csv --target diagnosis --out $(DEMO)/study
	@echo; echo "Open the report: $(DEMO)/study/report.html"
	@echo "The table has a column that gives the answer away. Without it:"
	@echo "$(BIN)/mercer study $(DEMO)/breast_cancer.csv --target diagnosis --drop treatment"

# One process of tests for each core. Threads of OpenBLAS on top of them would only wait for each other. Python keeps
# the compiled modules, of the tests also: without them every process needs about 10 s more before its first test.
IN_PARALLEL = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(1)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# The best instruction set, one configuration of each estimator, and one set of parameters a test.
test-fast: $(VENV)/.mercer $(VENV)/.tests
	$(call IN_PARALLEL,$(BIN)) -m "not slow and not full"

test: $(VENV)/.mercer $(VENV)/.tests
	$(call IN_PARALLEL,$(BIN))

# The lowest versions that pyproject.toml allows. Native code does not depend on them.
test-lowest: .venv-lowest/.mercer .venv-lowest/.tests
	$(call IN_PARALLEL,.venv-lowest/bin) -m "not slow and not full" --ignore tests/native

test-slow: $(VENV)/.mercer $(VENV)/.tests
	$(BIN)/python -m pytest -m slow

# Arrays on a device, with torch, whose tensors on the CPU count as being on one. TORCH says where pip finds it.
TORCH ?= --index-url https://download.pytorch.org/whl/cpu
test-arrays: .venv-torch/.mercer .venv-torch/.tests .venv-torch/.torch
	OMP_NUM_THREADS=1 $(call IN_PARALLEL,.venv-torch/bin) $(addprefix tests/test_,arrays.py device_training.py device_landmarks.py)

# Runs every block of the pages, then builds the site: about three minutes. A warning is an error: a link that leads
# nowhere, a page without a place, a public name that the reference does not have.
docs: $(VENV)/.mercer $(VENV)/.tests $(VENV)/.docs
	$(BIN)/python -m pytest -m docs
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs . build/site
	@echo "The site: build/site/index.html"

# Nothing here imports the package, so it is not installed.
check: $(VENV)/.needs $(VENV)/.tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/python .ci/words.py

# Lines, constants and functions of many parameters; beside them those of the last commit on main.
counts:
	@$(PYTHON) .ci/counts.py $(shell git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)

format: $(VENV)/.tools
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(NATIVE)

# Real data sets come from the folder in MERCER_DATA; without it, bundled and generated ones alone are measured.
bench: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.run

bench-search: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.search

bench-loo: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.leave_one_out

# Below 20 minutes; for an idle machine.
bench-linear: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.linear

# Below 5 minutes. Needs no data sets.
bench-structured: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.structured

# Below 15 minutes; for an idle machine. Needs no data sets.
bench-shapes: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.shapes

# Hours; continues where it was interrupted. For an idle machine with 8 GB. Needs no data sets.
bench-scale: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.scale

# Hours; goes on where it was interrupted.
bench-full: .venv-bench/.mercer .venv-bench/.peers
	.venv-bench/bin/python -m benchmarks.run --full
	.venv-bench/bin/python -m benchmarks.micro

wheel: $(VENV)/.pip
	$(BIN)/$(PIP) wheel -qq --no-deps --wheel-dir build/wheels .
	@ls build/wheels/*.whl

# Python itself is not instrumented, so the sanitizers (and the C++ library whose exceptions they intercept) are
# loaded before it. Leaks are not looked for: Python keeps memory until it exits.
CXX_LIBRARY = $(shell $(CXX) -print-file-name=$(1))
asan: .venv-asan/.mercer .venv-asan/.tests
	LD_PRELOAD="$(call CXX_LIBRARY,libasan.so) $(call CXX_LIBRARY,libubsan.so) $(call CXX_LIBRARY,libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 .venv-asan/bin/python -m pytest --capture=sys tests/native

# Data races: what runs in several threads, of the core or of Python. OpenBLAS is not instrumented, so that its own
# threads would be taken for racers; neither is polars, which does not start under the sanitizer.
THREADED = $(addprefix tests/,native $(addsuffix .py,$(addprefix test_,arena gram joint small solvers)))
tsan: .venv-tsan/.mercer .venv-tsan/.tests
	LD_PRELOAD="$(call CXX_LIBRARY,libtsan.so) $(call CXX_LIBRARY,libstdc++.so.6)" TSAN_OPTIONS=halt_on_error=1 \
	OPENBLAS_NUM_THREADS=1 .venv-tsan/bin/python -m pytest --capture=sys $(THREADED) \
	    -k "thread or cached_rows or kept_rows or many_variables or linear_sweeps or row_terms"

# The vector code of processors that have neither SSE2 nor anything that is chosen at run time.
generic: .venv-generic/.mercer .venv-generic/.tests
	$(call IN_PARALLEL,.venv-generic/bin) tests/native

# For quick iteration: compiles only what changed, and lets the environment import straight from src/. It stays so, also
# for `make test`, until `make clean`.
dev: $(VENV)/.needs $(VENV)/.tests $(VENV)/.build
	@rm -f $(VENV)/.mercer
	@$(BIN)/$(PIP) uninstall -qq --yes mercer 2>/dev/null
	@PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/dev -G Ninja --log-level=WARNING \
	    -DPython_EXECUTABLE=$(abspath $(BIN))/python -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)"
	@PATH="$(abspath $(BIN)):$$PATH" cmake --build build/dev
	@for built in build/dev/_core*.so; do cp $$built src/mercer/.new && mv src/mercer/.new src/mercer/$$(basename $$built); done  # running programs keep the old one
	@for site in $(VENV)/lib/python*/site-packages; do echo "$(abspath src)" > $$site/mercer-dev.pth; done
	@printf '#!%s\nfrom mercer.studies.cli import main\n\nmain()\n' "$(abspath $(BIN))/python" > $(BIN)/mercer && chmod +x $(BIN)/mercer
	@touch $(VENV)/.mercer

clean:
	rm -rf build .venv .venv-bench .venv-asan .venv-tsan .venv-generic .venv-lowest .venv-torch src/mercer/*.so

# Environments. Each stamp stands for one thing that was installed; an environment that exists already is adopted.
%/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "mercer needs Python 3.11 or newer, but $(PYTHON) is not; name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $*
	@$*/bin/$(PIP) install -qq --upgrade 'pip>=25.1'
	@touch $@

# The build folder stays, and so do the tools that compile: a change of Python alone compiles nothing, and one of C++
# only what includes the changed file.
IS_DEV = ls $*/lib/python*/site-packages/mercer-dev.pth >/dev/null 2>&1
%/.wheel: $(SOURCES) | %/.build
	@$(IS_DEV) || { echo "Building mercer for $* (about two minutes the first time)"; rm -rf $*/wheel; \
	    PATH="$(abspath $*/bin):$$PATH" $*/bin/$(PIP) wheel -qq --no-deps --no-build-isolation --wheel-dir $*/wheel \
	        -C build-dir=build/$* $(BUILD_OPTIONS) .; }
	@touch $@

# While the core compiles, the packages that it needs are installed.
%/.mercer: $(SOURCES) | %/.build
	@$(MAKE) --no-print-directory -j 2 AT_ONCE=1 $*/.wheel $*/.needs
	@if $(IS_DEV); then $(MAKE) --no-print-directory VENV=$* dev; else \
	    $*/bin/$(PIP) uninstall -qq --yes mercer 2>/dev/null; \
	    $*/bin/$(PIP) install -qq --no-deps $*/wheel/*.whl; fi
	@touch $@

# What mercer and its studies import.
%/.needs: pyproject.toml | %/.pip
	@$*/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    print(*project["dependencies"], *project["optional-dependencies"]["study"], sep="\n")' > $*/needs.txt
	@$*/bin/$(PIP) install -qq -r $*/needs.txt
	@touch $@

.venv-lowest/.needs .venv-lowest/.tests: tests/lowest.txt
.venv-lowest/.needs .venv-lowest/.tests: export PIP_CONSTRAINT = $(abspath tests/lowest.txt)

.venv-asan/.wheel: BUILD_OPTIONS = -C cmake.define.MERCER_SANITIZE=address,undefined -C cmake.build-type=Debug
.venv-generic/.wheel: BUILD_OPTIONS = -C cmake.define.MERCER_GENERIC=ON
.venv-tsan/.wheel: BUILD_OPTIONS = -C cmake.define.MERCER_SANITIZE=thread -C cmake.build-type=Debug

%/.tests: pyproject.toml | %/.pip
	@$*/bin/$(PIP) install -qq --group test --group exports
	@touch $@

%/.docs: pyproject.toml | %/.pip
	@$*/bin/$(PIP) install -qq --group docs
	@touch $@

%/.tools: pyproject.toml | %/.pip
	@$*/bin/$(PIP) install -qq --group tools
	@touch $@

%/.build: pyproject.toml | %/.pip
	@$*/bin/$(PIP) install -qq --group build
	@touch $@

%/.torch: pyproject.toml | %/.pip
	@$*/bin/$(PIP) install -qq $(TORCH) 'torch>=2.4'
	@$*/bin/$(PIP) install -qq 'array-api-compat>=1.10'
	@touch $@

%/.peers: benchmarks/requirements.txt | %/.pip
	@$*/bin/$(PIP) install -qq -r $<
	@touch $@
