// A timed GPU, which computes nothing and takes the time that a model of its work gives: for the
// planner, runtime and allocator at a real job's sizes, on any machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace emulated {

/// TRIREME_EMULATED_GPU=timed. Queued work is done at once, but counts as done only after its time,
/// in the order of the streams. Copies of more than kMovedBytes move nothing, and give zeros to the
/// host's pageable memory, where they are read; memory is zero and costs none of the host's.
bool is_timed();

inline constexpr std::size_t kMovedBytes = std::size_t{64} << 10;

/// Rates of an H200, roughly; TRIREME_EMULATED_GPU_RATES has others: six numbers, in this order.
struct Rates {
  double products = 700e12;   ///< FLOP/s of matrix products
  double attention = 350e12;  ///< FLOP/s of fused attention
  double memory = 4.0e12;     ///< bytes per second, read and written
  double copies = 50e9;       ///< bytes per second to or from the host, each way
  double least = 3e-6;        ///< seconds that any kernel takes
  double links = 300e9;       ///< bytes per second from one device to another, each way
};
const Rates& rates();

/// The link that the copies of all streams in one direction share: one at a time, each in the first
/// gap that is long enough, whoever queued it first.
class Link {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// When a copy ends that may begin at `earliest`, which is not before now.
  Time book(Time earliest, Time::duration length);

 private:
  std::mutex mutex_;
  std::map<Time, Time> taken_;  ///< ends by begins, none over another
};
/// The links between the host and a device.
Link& link_of(int device, bool to_device);

/// When an operation ends. It begins after others, of which some may wait for a message that the
/// other rank has not queued yet: then it is not known.
class Moment {
 public:
  using Time = Link::Time;
  using Ptr = std::shared_ptr<Moment>;

  /// Takes `length`, on `link` if there is one, and is queued by `parts` callers of follow().
  explicit Moment(Time::duration length, Link* link = nullptr, int parts = 1)
      : length_(length), link_(link), waits_(parts) {}

  /// One of its parts begins no earlier than `earliest`, and after those of `before` that are not
  /// null.
  static void follow(const Ptr& moment, Time earliest, const std::vector<Ptr>& before);
  /// Its other parts will not come.
  static void give_up(const Ptr& moment);

  std::optional<Time> time() const;
  /// Blocks until it is known.
  Time await() const;

 private:
  static void settle(const Ptr& first);

  Time::duration length_;
  Link* link_;
  int waits_;
  Time earliest_;
  std::optional<Time> time_;
  std::vector<Ptr> next_;
};

/// When all that is queued on a stream is done: `known`, or `open` where there is one.
struct End {
  Moment::Time known;
  Moment::Ptr open;

  std::optional<Moment::Time> time() const { return open ? open->time() : known; }
  Moment::Time await() const { return open ? open->await() : known; }
};

/// Time of a copy: within one device, or to or from the host.
std::chrono::nanoseconds time_of_copy(std::size_t size, bool is_within_device);

}  // namespace emulated
