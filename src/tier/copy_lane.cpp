// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/copy_lane.h"

#include <utility>

namespace trireme::tier {

CopyLane::CopyLane() : thread_([this] { run(); }) {}

CopyLane::~CopyLane() {
  abandon();
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CopyLane::Ticket CopyLane::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  changed_.notify_all();
  return ++posted_;
}

void CopyLane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= ticket || error_; });
  if (error_) std::rethrow_exception(error_);
}

void CopyLane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_running_ && (waiting_.empty() || error_); });
  if (error_) std::rethrow_exception(error_);
}

void CopyLane::abandon() noexcept {
  std::unique_lock lock(mutex_);
  ended_ += waiting_.size();
  waiting_.clear();
  changed_.wait(lock, [&] { return !is_running_; });
  error_ = nullptr;
  spans_.clear();
}

std::deque<CopyLane::Span> CopyLane::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void CopyLane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || (!waiting_.empty() && !error_); });
    if (stops_) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    is_running_ = true;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    is_running_ = false;
    if (error) error_ = error;
    ++ended_;
    spans_.push_back({begin, Clock::now()});
    changed_.notify_all();
  }
}

}  // namespace trireme::tier
