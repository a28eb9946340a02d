"""The figures that a page shows under a planning command are what the command prints.

Usage: docs_figures_test.py TRIREME   (run from the tree's root)

A page's indented blocks are commands, lines of their output (`energy    1.72 kJ ...`), and files, named by the last `NAME.yaml` in the text before.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import subprocess
import sys
import tempfile

TRIREME = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"(?:build/release/bin/)?trireme (plan .*)")
FIGURES = re.compile(r"(?:time|energy|peak|static) {2,}\S")
FORMAT = "format: trireme-"


def blocks_of(page):
    """The text before each indented block, and its lines without the indent."""
    text, block = "", []
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if block:
            yield text, block
            text, block = "", []
        text += line + "\n"


def commands_of(block):
    """Arguments of the planning commands, each in one line."""
    lines = "\n".join(block).replace("\\\n", " ").splitlines()
    return [match[1].split() for match in map(COMMAND.match, lines) if match]


def wrong_figures(page, folder):
    """Lines of the page that the command above them does not print, and how many lines it has."""
    wrong, count, command, printed = [], 0, None, None
    for text, block in blocks_of(page):
        if block[0].startswith(FORMAT):
            for name in re.findall(r"`([\w.-]+\.yaml)`", text)[-1:]:
                (folder / name).write_text("\n".join(block) + "\n", encoding="utf-8")
        elif commands_of(block):
            command, printed = commands_of(block)[-1], None
        elif command is not None:
            for line in filter(FIGURES.match, block):
                if printed is None:
                    words = [str(folder / word) if (folder / word).exists() else word for word in command]
                    result = subprocess.run([TRIREME, *words], capture_output=True, text=True, cwd=ROOT, check=False)
                    printed = result.stdout.splitlines() + result.stderr.splitlines()
                count += 1
                if line not in printed:
                    head = line.split()[0]
                    wrong.append(f"{page.relative_to(ROOT)}: {line}\n  printed: " + "\n  ".join(other for other in printed if other.startswith(head) or "trireme:" in other))
    return wrong, count


def main():
    wrong, count = [], 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        with tempfile.TemporaryDirectory() as folder:
            of_page, lines = wrong_figures(page, pathlib.Path(folder))
        wrong += of_page
        count += lines
    if count == 0:
        sys.exit("no page has figures under a command: what this test looks for has changed")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{count} lines of pages are what their commands print")


main()
