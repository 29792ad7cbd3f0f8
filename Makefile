# Python to make the environment with; everything else happens inside .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Installed with all that tests need, and with what a run needs.
STAMP  := $(VENV)/.installed
RUNS   := $(VENV)/.runs
TYPED := $(shell find kernbench -name "*.pxd")
CORE  := $(shell find kernbench_core -name "*.pyx" -o -name "*.pxd" -o -name "*.h")
SOURCES := pyproject.toml setup.py kernbench_core/state/field_table.py $(CORE) $(TYPED) $(TYPED:.pxd=.py)
# One more than cores, since some tests wait for a browser, a disk or a process that they stop; a worker takes 1.5 GB.
CORES  := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
JOBS   ?= $(shell echo $$(($(CORES) < 8 ? $(CORES) + 1 : 8)))

export OPENBLAS_NUM_THREADS = 1
# Hypothesis has no plugin to load here: the one that trio brings imports all of trio, in each process.
export HYPOTHESIS_NO_PLUGINS = 1
# Packages are installed without bytecode, which takes pip 10 s: Python writes that of the modules that it imports.
export PIP_NO_COMPILE = 1
# Python keeps that bytecode even where the environment says not to: tests start a thousand processes.
unexport PYTHONDONTWRITEBYTECODE

# The fuzzer runs so long on the release build, then on the sanitizers': less than two hours together. Failing inputs are kept.
FUZZ_MINUTES ?= 55
FUZZ_KEEP    ?= /tmp/kernbench-fuzz
# The searches for races in benches, algorithms and examples take so long together.
RACE_MINUTES ?= 30

.PHONY: demo test same check bench nightly fuzz races docs lint types checked sanitize package wheel clean install

# The main job: one decoder layer of Llama-2-7B, one token, on the server preset.
demo: $(RUNS)
	$(BIN)/kbsim run llama2-7b-decode --config npu_server

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# The results of this code against those recorded in tests/same/manifest.txt: for changes that must not change any.
same: $(STAMP)
	$(BIN)/python -m tests.same --jobs $(JOBS)

install: $(STAMP)

# What it needs is installed while it is built, which takes one core for seconds.
DEPENDENCIES = import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')
$(RUNS): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "$(DEPENDENCIES)" > $(VENV)/dependencies.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $(VENV)/dependencies.txt & \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . && wait $$!
	touch $@

# It is installed already: this adds what its extras name.
$(STAMP): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'kernbench[test,docs]'
	touch $@

check: lint types test checked sanitize package

lint: $(VENV)/.check
	$(BIN)/ruff check kernbench tests benches configs docs setup.py kernbench_libraries.py
	PATH="$(abspath $(BIN)):$$PATH" cython-lint kernbench_core kernbench

types: $(VENV)/.check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --allowlist tests/meta/stubtest.txt --ignore-unused-allowlist \
		--ignore-disjoint-bases kernbench_core.core kernbench_core.types kernbench_core.trace.events kernbench_core.trace.format kernbench_core.trace.samples
	cd tests/consumer && $(abspath $(BIN))/mypy --strict --config-file= --follow-imports=silent .

$(VENV)/.check: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'kernbench[test,docs,check]'
	touch $@

# The suite with bounds checks, and under AddressSanitizer and UBSan, each in an environment of its own.
checked: $(STAMP)
	sh tests/builds.sh checked $(PYTHON)

sanitize: $(STAMP)
	sh tests/builds.sh sanitize $(PYTHON)

# Wheel and sdist, each installed where nothing else is; README, tutorials and the types of a consumer in that environment.
package: $(VENV)/.check
	sh tests/package.sh $(PYTHON)

# The wheel of this Python and platform in dist/, repaired by auditwheel and tried like those of `package`.
wheel: $(STAMP)
	sh tests/wheel.sh $(PYTHON)

bench: $(STAMP)
	$(BIN)/python -m tests.speed

nightly: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --nightly -m nightly
	$(MAKE) fuzz
	$(MAKE) races

FUZZ = -m tests.property.fuzz --inputs 1000000 --minutes $(FUZZ_MINUTES) --jobs 2 --keep $(FUZZ_KEEP)
fuzz: $(STAMP)
	mkdir -p $(FUZZ_KEEP)
	status=0; \
	$(BIN)/python $(FUZZ)/release || status=1; \
	sh tests/builds.sh sanitize $(PYTHON) $(FUZZ)/sanitize || status=1; \
	exit $$status

races: $(STAMP)
	$(BIN)/python -m tests.property.races --minutes $(RACE_MINUTES) --jobs $(CORES)

docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# All that the other targets make: builds, wheels, pages, caches, the environment. Failing inputs of the fuzzer are kept.
clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/_generated kernbench_core/state/field_table.pxi kernbench/compiled.txt kernbench_core/compiled.txt
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	find kernbench kernbench_core \( -name "*.so" -o -name "*.c" \) -delete
