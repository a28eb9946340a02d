// SPDX-License-Identifier: Apache-2.0
#include "tier/stream_marks.h"

#include "tier/cuda_calls.h"

#include <thread>

namespace trireme::tier {
namespace {

/// Marks closer than this are one mark: a launch takes several times as long.
constexpr std::chrono::nanoseconds kSameMark{1500};
/// Polling interval of settle(), and how many marks it leaves for the end.
constexpr std::chrono::microseconds kBetweenLooks{200};
constexpr std::size_t kLastMarks = 8;

}  // namespace

void StreamMarks::begin() {
  used_ = 0;
  since_origin_.clear();
  origin_.record(stream());
  origin_.synchronize();
  origin_time_ = Clock::now();
}

StreamMarks::Mark StreamMarks::set() {
  const Clock::time_point now = Clock::now();
  const bool is_same = used_ > 0 && now - last_set_ < kSameMark;
  if (!is_same) {
    if (used_ == events_.size()) events_.emplace_back(cudaEventDefault);
    events_[used_++].record(stream());
  }
  last_set_ = Clock::now();
  return static_cast<Mark>(used_) - 1;
}

/// The driver takes microseconds to read each mark's time: read while the device works on.
void StreamMarks::settle() {
  for (read_reached(); since_origin_.size() + kLastMarks < used_; read_reached())
    std::this_thread::sleep_for(kBetweenLooks);
  check(cudaStreamSynchronize(stream()), "the end of a step");
  read_reached();
}

void StreamMarks::read_reached() {
  while (since_origin_.size() < used_) {
    float milliseconds = 0;
    const cudaError_t status =
        cudaEventElapsedTime(&milliseconds, origin_, events_[since_origin_.size()]);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // a later call would report it
      return;
    }
    check(status, "the time of a mark");
    const std::chrono::duration<double, std::milli> time(milliseconds);
    since_origin_.push_back(std::chrono::duration_cast<Clock::duration>(time));
  }
}

StreamMarks::Clock::time_point StreamMarks::time(Mark mark) const {
  return origin_time_ + since_origin_.at(static_cast<std::size_t>(mark));
}

}  // namespace trireme::tier
