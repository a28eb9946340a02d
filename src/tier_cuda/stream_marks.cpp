// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier_cuda/stream_marks.h"

#include "trireme/tier_cuda/cuda_calls.h"

namespace trireme::tier {
namespace {

/// A launch takes several times as long.
constexpr std::chrono::nanoseconds kSameMark{1500};

}  // namespace

void StreamMarks::begin() {
  used_ = 0;
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

void StreamMarks::settle() {
  check(cudaStreamSynchronize(stream()), "the end of a step");
}

StreamMarks::Clock::time_point StreamMarks::time(Mark mark) const {
  const std::chrono::duration<double, std::milli> since_origin(
      origin_.elapsed_time(events_[static_cast<std::size_t>(mark)]));
  return origin_time_ + std::chrono::duration_cast<Clock::duration>(since_origin);
}

}  // namespace trireme::tier
