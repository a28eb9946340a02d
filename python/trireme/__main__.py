"""`python -m trireme train job.yaml`: the commands, for models of Python files too."""

import sys

from . import run


def main() -> int:
    return run(*sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
