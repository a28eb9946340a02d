// A library that is not where the loader looks.
// SPDX-License-Identifier: Apache-2.0
extern "C" int gone();

extern "C" int gone() {
  return 0;
}
