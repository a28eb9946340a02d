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
  const auto cores =
      std::min<std::size_t>(static_cast<std::size_t>(usable_processors()), kMostAtOnce);
  const std::size_t at_once = std::min(cores, count);
  std::vector<std::future<void>> others;
  for (std::size_t k = 1; k < at_once; ++k) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::partition
