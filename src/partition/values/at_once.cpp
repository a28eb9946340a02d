// SPDX-License-Identifier: Apache-2.0
#include "at_once.h"

#include "trireme/core/cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <vector>

namespace trireme::partition {
namespace {

/// Planning for a pipeline takes up to a gigabyte.
constexpr unsigned kMostAtOnce = 4;

/// Threads beside the callers', of all calls together: what is asked within an answer gets one only
/// where the others leave it.
class Helpers {
 public:
  Helpers()
      : free_(static_cast<int>(std::min(static_cast<unsigned>(usable_processors()), kMostAtOnce)) -
              1) {}

  /// As many as are free, at most `wanted`.
  std::size_t take(std::size_t wanted) {
    int free = free_.load();
    for (;;) {
      const int taken = std::min(free, static_cast<int>(wanted));
      if (taken <= 0) return 0;
      if (free_.compare_exchange_weak(free, free - taken)) return static_cast<std::size_t>(taken);
    }
  }
  void give_back(std::size_t count) { free_ += static_cast<int>(count); }

 private:
  std::atomic<int> free_;
};

Helpers& helpers() {
  static Helpers all;
  return all;
}

}  // namespace

void each_at_once(std::size_t count, const std::function<void(std::size_t)>& ask) {
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
  const std::size_t taken = count > 1 ? helpers().take(count - 1) : 0;
  std::vector<std::future<void>> others;
  for (std::size_t k = 0; k < taken; ++k) {
    others.push_back(std::async(std::launch::async, [&] {
      work();
      helpers().give_back(1);
    }));
  }
  work();
  for (std::future<void>& other : others) other.get();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::partition
