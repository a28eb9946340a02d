// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "timed.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace emulated {

namespace {

using namespace std::chrono_literals;

/// Time without new work after which the process counts as quiet, and how long an item of work
/// waits for that.
constexpr Clock::duration kQuiet = 3ms, kLatest = 30ms;
/// How long an early stream may take before its caller goes on.
constexpr Clock::duration kHeadStart = 1ms;

std::atomic<Clock::time_point> last_given{Clock::time_point{}};
std::atomic<int> kernels_at_work{0};
thread_local bool is_kernel = false;
std::atomic<std::int64_t> host_waits{0};

}  // namespace

std::uint64_t Stream::give(std::function<void()> work, Clock::duration time, Link* link) {
  const Clock::time_point now = Clock::now();
  if (is_timed()) {
    work();
    const std::lock_guard lock(mutex_);
    const Clock::time_point begin = std::max(end_, now);
    end_ = link != nullptr ? link->book(begin, time) : begin + time;
    return done_ = ++given_;
  }
  last_given = now;
  std::unique_lock lock(mutex_);
  left_.push_back({std::move(work), now});
  if (!std::exchange(has_thread_, true)) std::thread([this] { this->work(); }).detach();
  changed_.notify_all();
  const std::uint64_t number = ++given_;
  // The stream's thread may be late itself: work that can be done now is done before the caller
  // goes on.
  if (pace_ == Pace::kEarly) changed_.wait_for(lock, kHeadStart, [&] { return done_ >= number; });
  return number;
}

Clock::time_point Stream::end() {
  const std::lock_guard lock(mutex_);
  return end_;
}

void Stream::hold_until(Clock::time_point time) {
  const std::lock_guard lock(mutex_);
  end_ = std::max(end_, time);
}

void Stream::finish(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  if (wanted_ < number) {
    wanted_ = number;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return done_ >= number; });
}

void Stream::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

void Stream::finish() {
  if (is_timed()) return std::this_thread::sleep_until(end());
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = given_;
  }
  finish(last);
}

void Stream::finish_for_host() {
  if (!is_kernel) ++host_waits;
  finish();
}

bool Stream::is_done(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return done_ >= number;
}

bool Stream::is_done() {
  if (is_timed()) return Clock::now() >= end();
  const std::lock_guard lock(mutex_);
  return done_ == given_;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !left_.empty(); });
    const Clock::time_point given = left_.front().given;
    while (wanted_ <= done_ && Clock::now() < due(given)) changed_.wait_until(lock, due(given));
    const std::function<void()> run = std::move(left_.front().run);
    left_.pop_front();
    lock.unlock();
    run();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

Clock::time_point Stream::due(Clock::time_point given) const {
  if (pace_ == Pace::kEarly) return given;
  const Clock::time_point quiet = kernels_at_work > 0 ? Clock::now() : last_given.load();
  return std::min(given + kLatest, quiet + kQuiet);
}

void Event::record(Stream& stream) {
  auto place = std::make_shared<Place>();
  place->stream = &stream;
  place->number = stream.give([place] { place->time = Clock::now(); });
  if (is_timed()) place->time = stream.end();
  place_ = std::move(place);
}

void Event::block(Stream& stream) {
  if (!place_ || place_->stream == &stream) return;
  if (is_timed()) return stream.hold_until(place_->time);
  const bool hastens = stream.pace() == Stream::Pace::kLate;
  stream.give([place = place_, hastens] {
    hastens ? place->stream->finish(place->number) : place->stream->await(place->number);
  });
}

void Event::finish_for_host() {
  if (!place_) return;
  if (!is_kernel) ++host_waits;
  if (is_timed()) return std::this_thread::sleep_until(place_->time);
  place_->stream->finish(place_->number);
}

bool Event::is_reached() {
  if (place_ && is_timed()) return Clock::now() >= place_->time;
  return !place_ || place_->stream->is_done(place_->number);
}

}  // namespace emulated

void emulated_gpu_kernel(bool begins) {
  emulated::kernels_at_work += begins ? 1 : -1;
  emulated::is_kernel = begins;
}

std::int64_t emulated_gpu_host_waits() {
  return emulated::host_waits;
}
