// Trireme's counting allocator for another process: Python loads this library by ctypes, so that a
// peer's tensor bytes are counted by the very code that counts ours, and come from the same caches.
// Load it after `import torch` (its LibTorch is then the one that is used) and call
// trireme_count_begin() before the tensors that shall be counted.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/memory.h"

#include <cstdint>

namespace {

trireme::tier::MemoryAccount& account() {
  static trireme::tier::MemoryAccount& only = trireme::tier::MemoryAccount::open("peer");
  return only;
}

}  // namespace

extern "C" {

/// Counts the tensors that the calling thread makes from now on.
void trireme_count_begin() {
  trireme::tier::install_cpu_allocator();
  static auto* scope = new trireme::tier::AccountScope(account());  // until the process ends
  static_cast<void>(scope);
}

std::int64_t trireme_count_live() {
  return account().live().count();
}

std::int64_t trireme_count_peak() {
  return account().peak().count();
}

/// The peak starts again from what is live now.
void trireme_count_reset() {
  account().reset_peak();
}
}
