// SPDX-License-Identifier: Apache-2.0
#include "parallel_for.h"

#include "trireme/core/cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <vector>

namespace trireme::partition {
namespace {

/// Planning for a pipeline takes up to a gigabyte.
constexpr int kMostAtOnce = 4;

/// Free threads besides the callers', shared by all calls: nested calls get one only where the
/// others leave it.
std::atomic<std::size_t>& free_threads() {
  static std::atomic<std::size_t> free =
      static_cast<std::size_t>(std::clamp(usable_processors(), 1, kMostAtOnce) - 1);
  return free;
}

/// Takes up to `wanted` of the free threads; returns how many.
std::size_t taken_of(std::size_t wanted) {
  std::size_t free = free_threads(), taken = 0;
  do {
    taken = std::min(free, wanted);
  } while (!free_threads().compare_exchange_weak(free, free - taken));
  return taken;
}

}  // namespace

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& ask) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t k = next++; k < count; k = next++) {
      try {
        ask(k);
      } catch (...) {
        failures[k] = std::current_exception();
      }
    }
  };
  const std::size_t taken = count > 1 ? taken_of(count - 1) : 0;
  std::vector<std::future<void>> others;
  for (std::size_t k = 0; k < taken; ++k) {
    others.push_back(std::async(std::launch::async, [&] {
      work();
      ++free_threads();
    }));
  }
  work();
  for (std::future<void>& other : others) other.get();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::partition
