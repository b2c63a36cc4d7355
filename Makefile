# `make dist` needs python3 (3.11 or later) and the package index. It writes the wheel, the sdist and the programs for
# hosts without Python into dist/; packaging/README.md says more.
.PHONY: dist man
dist:
	python3 packaging/build.py

# `make man` writes the options and the findings into the manual, from kdump/cli/options and kdump/codes.py.
man:
	python docs/make-manual.py
