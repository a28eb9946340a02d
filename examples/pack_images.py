#!/usr/bin/env python3
"""Packs a folder of images into one file that Trireme maps (format trireme-images/1, docs/models.md).

    pack_images.py FOLDER SIDE OUTPUT

FOLDER has one folder of images per class. Needs numpy and Pillow.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import struct
import sys

import numpy
from PIL import Image, ImageOps


def main(folder, side, output):
    side = int(side)
    classes = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    files = [(file, label) for label, path in enumerate(classes)
             for file in sorted(path.iterdir()) if file.is_file()]
    with open(output, "wb") as packed:
        packed.write(b"trireme-images/1" + struct.pack("<4Q", len(files), 3, side, side) + bytes(16))
        for file, _ in files:
            image = ImageOps.exif_transpose(Image.open(file)).convert("RGB")
            pixels = numpy.asarray(ImageOps.fit(image, (side, side), Image.BILINEAR))
            packed.write(pixels.transpose(2, 0, 1).tobytes())
        packed.write(numpy.array([label for _, label in files], dtype="<u4").tobytes())
    print(f"{len(files)} images of {len(classes)} classes in {output}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
