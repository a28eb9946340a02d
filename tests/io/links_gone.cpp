// A library that cannot be loaded, since what it links is not found.
// SPDX-License-Identifier: Apache-2.0
extern "C" int gone();
extern "C" int links_gone();

extern "C" int links_gone() {
  return gone();
}
