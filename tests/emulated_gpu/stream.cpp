// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "timed.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace emulated {

namespace {

using namespace std::chrono_literals;

/// Time without new work after which the process counts as quiet, and how long an item of work
/// waits for that.
constexpr Clock::duration kQuiet = 3ms, kLatest = 30ms;
/// Looks for work, kQuiet apart, before a stream's thread sleeps until it is woken.
constexpr int kIdleLooks = 10;
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
    close();
    if (end_.open) {
      const auto next = std::make_shared<Moment>(time, link);
      Moment::follow(next, now, {std::exchange(end_.open, next)});
    } else {
      const Clock::time_point begin = std::max(end_.known, now);
      end_.known = link != nullptr ? link->book(begin, time) : begin + time;
    }
    return done_ = ++given_;
  }
  last_given = now;
  std::unique_lock lock(mutex_);
  left_.push_back({std::move(work), now});
  if (!std::exchange(has_thread_, true)) std::thread([this] { this->work(); }).detach();
  if (is_asleep_ || pace_ == Pace::kEarly) hurry_.notify_one();
  const std::uint64_t number = ++given_;
  // The stream's thread may be late itself: work that can be done now is done before the caller
  // goes on.
  if (pace_ == Pace::kEarly) await(number, lock, Clock::now() + kHeadStart);
  return number;
}

End Stream::end() {
  const std::lock_guard lock(mutex_);
  close();
  return end_;
}

void Stream::hold_until(const End& end) {
  const std::lock_guard lock(mutex_);
  close();
  const std::optional<Clock::time_point> time = end.time();
  if (time && !end_.open) {
    end_.known = std::max(end_.known, *time);
  } else {
    const auto both = std::make_shared<Moment>(Clock::duration{});
    Moment::follow(both, time.value_or(end_.known), {std::exchange(end_.open, both), end.open});
  }
}

void Stream::meet(const Moment::Ptr& message) {
  const std::lock_guard lock(mutex_);
  close();
  Moment::follow(message, std::max(end_.known, Clock::now()), {std::exchange(end_.open, message)});
}

/// Its end is known once that of the last message is.
void Stream::close() {
  if (!end_.open) return;
  if (const std::optional<Clock::time_point> time = end_.open->time())
    end_ = {.known = *time, .open = nullptr};
}

void Stream::finish(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  wanted_ = std::max(wanted_, number);
  while (done_ < number && !is_busy_) perform(lock);
  if (!left_.empty()) hurry_.notify_one();
  await(number, lock);
}

void Stream::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  await(number, lock);
}

void Stream::await(std::uint64_t number, std::unique_lock<std::mutex>& lock,
                   std::optional<Clock::time_point> latest) {
  const auto is_done = [&] { return done_ >= number; };
  const auto place = awaited_.insert(number);
  latest ? static_cast<void>(reached_.wait_until(lock, *latest, is_done))
         : reached_.wait(lock, is_done);
  awaited_.erase(place);
}

void Stream::finish() {
  if (is_timed()) return std::this_thread::sleep_until(end().await());
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
  if (is_timed()) {
    const std::optional<Clock::time_point> time = end().time();
    return time && Clock::now() >= *time;
  }
  const std::lock_guard lock(mutex_);
  return done_ == given_;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  int idle = 0;
  while (true) {
    if (left_.empty()) {
      is_asleep_ = ++idle > kIdleLooks;
      is_asleep_ ? hurry_.wait(lock) : static_cast<void>(hurry_.wait_for(lock, kQuiet));
      is_asleep_ = false;
      continue;
    }
    idle = 0;
    const Clock::time_point time = due(left_.front().given);
    if (is_busy_) {
      hurry_.wait_for(lock, kQuiet);
    } else if (wanted_ <= done_ && Clock::now() < time) {
      hurry_.wait_until(lock, time);
    } else {
      perform(lock);
    }
  }
}

void Stream::perform(std::unique_lock<std::mutex>& lock) {
  const std::function<void()> run = std::move(left_.front().run);
  left_.pop_front();
  is_busy_ = true;
  lock.unlock();
  run();
  lock.lock();
  is_busy_ = false;
  ++done_;
  if (!awaited_.empty() && *awaited_.begin() <= done_) reached_.notify_all();
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
  if (is_timed()) place->end = stream.end();
  place_ = std::move(place);
}

void Event::block(Stream& stream) {
  if (!place_ || place_->stream == &stream) return;
  if (is_timed()) return stream.hold_until(place_->end);
  const bool hastens = stream.pace() == Stream::Pace::kLate;
  stream.give([place = place_, hastens] {
    hastens ? place->stream->finish(place->number) : place->stream->await(place->number);
  });
}

void Event::finish_for_host() {
  if (!place_) return;
  if (!is_kernel) ++host_waits;
  if (is_timed()) return std::this_thread::sleep_until(place_->end.await());
  place_->stream->finish(place_->number);
}

bool Event::is_reached() {
  if (place_ && is_timed()) {
    const std::optional<Clock::time_point> time = place_->end.time();
    return time && Clock::now() >= *time;
  }
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
