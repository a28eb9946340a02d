#!/usr/bin/env python3
"""Packs a folder of images into one file that Trireme maps (format trireme-images/1, docs/models.md).

    pack_images.py FOLDER SIDE OUTPUT

FOLDER has one folder of images per class. The same as `trireme pack-images 'FOLDER/*/*' --side SIDE -o OUTPUT`, which does it, so that pixels and
classes are those that training has from the images themselves. TRIREME may name the program, else it is the one that ./launch/build has made.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import pathlib
import sys


def main(folder, side, output):
    built = pathlib.Path(__file__).resolve().parents[1] / "build/release/bin/trireme"
    trireme = os.environ.get("TRIREME") or (str(built) if built.exists() else "trireme")
    try:
        os.execvp(trireme, [trireme, "pack-images", f"--side={side}", f"--output={output}", "--", f"{glob.escape(folder)}/*/*"])
    except OSError as error:
        print(f"pack_images.py: {trireme}: {error.strerror}: run ./launch/build, or say in TRIREME where the program is", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
