// SPDX-License-Identifier: Apache-2.0
#include "timed.h"

#include <algorithm>
#include <condition_variable>
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
  numbers >> rates.products >> rates.attention >> rates.memory >> rates.copies >> rates.least >>
      rates.links;
  return rates;
}

/// Guards all moments.
std::mutex& moments() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::condition_variable& known() {
  static auto* const changed = new std::condition_variable;
  return *changed;
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

void Moment::follow(const Ptr& moment, Time earliest, const std::vector<Ptr>& before) {
  const std::lock_guard lock(moments());
  moment->earliest_ = std::max(moment->earliest_, earliest);
  for (const Ptr& one : before) {
    if (!one) continue;
    if (one->time_) {
      moment->earliest_ = std::max(moment->earliest_, *one->time_);
    } else {
      one->next_.push_back(moment);
      ++moment->waits_;
    }
  }
  if (--moment->waits_ == 0) settle(moment);
}

void Moment::give_up(const Ptr& moment) {
  const std::lock_guard lock(moments());
  if (moment->time_) return;
  moment->waits_ = 0;
  settle(moment);
}

void Moment::settle(const Ptr& first) {
  std::vector<Ptr> left{first};
  while (!left.empty()) {
    const Ptr moment = std::move(left.back());
    left.pop_back();
    if (moment->time_) continue;
    moment->time_ = moment->link_ != nullptr
                        ? moment->link_->book(moment->earliest_, moment->length_)
                        : moment->earliest_ + moment->length_;
    for (const Ptr& next : std::exchange(moment->next_, {})) {
      next->earliest_ = std::max(next->earliest_, *moment->time_);
      if (--next->waits_ == 0) left.push_back(next);
    }
  }
  known().notify_all();
}

std::optional<Moment::Time> Moment::time() const {
  const std::lock_guard lock(moments());
  return time_;
}

Moment::Time Moment::await() const {
  std::unique_lock lock(moments());
  known().wait(lock, [&] { return time_.has_value(); });
  return *time_;
}

std::chrono::nanoseconds time_of_copy(std::size_t size, bool is_within_device) {
  const auto bytes = static_cast<double>(size);
  const double seconds = is_within_device ? 2 * bytes / rates().memory : bytes / rates().copies;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(1e9 * std::max(seconds, rates().least)));
}

}  // namespace emulated
