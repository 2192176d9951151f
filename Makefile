# All that these commands need is make, and Python 3.10 to 3.13 with pip and venv.
#   make demo    render the default project and train it
#   make test    what must pass on every change
#   make full    the tests that make test leaves out, and some proofs made anew
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
NOX := .venv/bin/nox

demo test full: $(NOX)
	$(NOX) --session $@

$(NOX):
	@$(PYTHON) -c 'import sys; (3, 10) <= sys.version_info < (3, 14) or sys.exit( \
	  "ERROR: TensorFlow needs Python 3.10 to 3.13, this is %d.%d; name another: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet nox

.PHONY: demo test full
