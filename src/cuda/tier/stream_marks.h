// Marks in the work of a CUDA stream, made of events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/marks.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <deque>
#include <vector>

namespace trireme::tier {

/// Marks on the current stream of the thread that sets them, which must always be the same. A mark
/// set so soon after another that nothing can have been launched in between is that other mark.
class StreamMarks final : public device::Marks {
 public:
  explicit StreamMarks(c10::DeviceIndex device) : device_(device) {}

  void begin() override;
  Mark set() override;
  void settle() override;
  Clock::time_point time(Mark mark) const override;

 private:
  c10::cuda::CUDAStream stream() const { return c10::cuda::getCurrentCUDAStream(device_); }
  /// Reads the times of marks that have been reached, in order, up to the first that has not.
  void read_reached();

  c10::DeviceIndex device_;
  c10::cuda::CUDAEvent origin_{cudaEventDefault};  ///< happened at origin_time_
  Clock::time_point origin_time_, last_set_;
  std::deque<c10::cuda::CUDAEvent> events_;  ///< reused after begin()
  std::size_t used_ = 0;
  std::vector<Clock::duration> since_origin_;  ///< by mark, as far as read
};

}  // namespace trireme::tier
