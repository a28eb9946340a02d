// SPDX-License-Identifier: Apache-2.0
#include "timed.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

namespace emulated {
namespace {

Rates read_rates() {
  Rates rates;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const char* const text = std::getenv("TRIREME_EMULATED_GPU_RATES");
  if (text == nullptr) return rates;
  std::istringstream numbers(text);
  numbers >> rates.products >> rates.attention >> rates.memory >> rates.copies >> rates.least;
  return rates;
}

}  // namespace

bool is_timed() {
  static const bool timed = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
    const char* const mode = std::getenv("TRIREME_EMULATED_GPU");
    return mode != nullptr && std::string_view(mode) == "timed";
  }();
  return timed;
}

const Rates& rates() {
  static const Rates all = read_rates();
  return all;
}

Link::Time Link::book(Time earliest, Time::duration length) {
  const std::lock_guard lock(mutex_);
  const Time now = std::chrono::steady_clock::now();
  std::erase_if(taken_, [&](const auto& one) { return one.second <= now; });
  Time begin = earliest;
  for (const auto& [from, until] : taken_) {
    if (from >= begin + length) break;
    begin = std::max(begin, until);
  }
  return taken_[begin] = begin + length;
}

Link& link_of(int device, bool to_device) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, Link> links;
  const std::lock_guard lock(mutex);
  return links[{device, to_device}];
}

std::chrono::nanoseconds time_of_copy(std::size_t size, bool is_within_device) {
  const auto bytes = static_cast<double>(size);
  const double seconds = is_within_device ? 2 * bytes / rates().memory : bytes / rates().copies;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(1e9 * std::max(seconds, rates().least)));
}

}  // namespace emulated
