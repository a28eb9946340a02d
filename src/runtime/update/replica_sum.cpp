// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/replica_sum.h"

#include "state/tensor_bytes.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

namespace trireme::runtime {
namespace {

using comm::Stream;

/// 16 MiB of floats keep a link busy for longer than the overhead of a message takes.
constexpr std::int64_t kLargestBlock = std::int64_t{1} << 22;
constexpr std::int64_t kSmallestBlock = std::int64_t{1} << 10;
constexpr std::int64_t kBlocks = 64;

/// Index of the member in the group.
std::int64_t place_in(std::span<const int> group, int rank) {
  const auto place = std::find(group.begin(), group.end(), rank) - group.begin();
  ensure(std::cmp_less(place, group.size()), "a member of the group takes part");
  return place;
}

/// The chain sum of one member. Block b goes through raise(b), then lower(b), as far down as it is
/// needed.
class Member {
 public:
  /// `parts` as in sum_for_owners(); empty: all members need all sums.
  Member(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
         std::span<const comm::BufferRange> parts, std::string_view what);

  void sum();

 private:
  bool is_first() const { return place_ == 0; }
  bool is_last() const { return place_ + 1 == members_; }
  at::Tensor block(std::int64_t b) const {
    const std::int64_t begin = b * block_;
    return values_.narrow(0, begin, std::min(block_, values_.numel() - begin));
  }
  std::unique_ptr<comm::Transfer> send(const at::Tensor& values, int to) {
    return channel_.send(bytes_of(values), to, Stream::kControl);
  }
  /// The first member that needs the block's sum.
  std::int64_t lowest(std::int64_t b) const;
  /// Starts the receive of a block's partial sum.
  void expect_partial(std::int64_t b);
  /// Receives the partial sum from below, adds this member's numbers and passes it up.
  void raise(std::int64_t b);
  /// Receives the whole sum from above and passes it down.
  void lower(std::int64_t b);

  comm::Channel& channel_;
  at::Tensor values_;
  std::span<const comm::BufferRange> parts_;
  std::string_view what_;
  std::int64_t members_, place_;
  int below_ = -1, above_ = -1;  ///< ranks
  std::int64_t block_, blocks_;

  std::array<at::Tensor, 2> partial_;  ///< for even and odd blocks
  std::array<std::unique_ptr<comm::Transfer>, 2> coming_;
  std::deque<std::unique_ptr<comm::Transfer>> rising_, falling_;
};

Member::Member(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
               std::span<const comm::BufferRange> parts, std::string_view what)
    : channel_(channel),
      values_(values),
      parts_(parts),
      what_(what),
      members_(static_cast<std::int64_t>(group.size())),
      place_(place_in(group, channel.rank())),
      block_(std::clamp(values.numel() / kBlocks, kSmallestBlock, kLargestBlock)),
      blocks_((values.numel() + block_ - 1) / block_) {
  if (!is_first()) below_ = group[static_cast<std::size_t>(place_ - 1)];
  if (!is_last()) above_ = group[static_cast<std::size_t>(place_ + 1)];
}

void Member::sum() {
  if (!is_first()) {
    for (std::int64_t b = 0; b < std::min<std::int64_t>(2, blocks_); ++b) {
      partial_[static_cast<std::size_t>(b)] = at::empty({block_}, values_.options());
      expect_partial(b);
    }
  }
  // A block returns from the last member, one step each way, after `delay` more blocks have gone
  // up.
  const std::int64_t delay = 2 * (members_ - 1 - place_);
  for (std::int64_t step = 0; step < blocks_ + delay; ++step) {
    if (step < blocks_) raise(step);
    if (step >= delay) lower(step - delay);
  }
  for (const auto* const sent : {&rising_, &falling_})
    for (const auto& transfer : *sent) transfer->wait(what_);
}

std::int64_t Member::lowest(std::int64_t b) const {
  const std::int64_t begin = b * block_, end = std::min(begin + block_, values_.numel());
  for (std::size_t j = 0; j < parts_.size(); ++j) {
    const auto first = static_cast<std::int64_t>(parts_[j].begin);
    if (first < end && first + static_cast<std::int64_t>(parts_[j].size) > begin)
      return static_cast<std::int64_t>(j);
  }
  return parts_.empty() ? 0 : members_ - 1;
}

void Member::expect_partial(std::int64_t b) {
  const auto turn = static_cast<std::size_t>(b % 2);
  coming_[turn] = channel_.receive(writable_bytes_of(partial_[turn].narrow(0, 0, block(b).numel())),
                                   below_, Stream::kControl);
}

void Member::raise(std::int64_t b) {
  const at::Tensor mine = block(b);
  if (!is_first()) {
    const auto turn = static_cast<std::size_t>(b % 2);
    coming_[turn]->wait(what_);
    mine.add_(partial_[turn].narrow(0, 0, mine.numel()));
    if (b + 2 < blocks_) expect_partial(b + 2);
  }
  if (!is_last()) rising_.push_back(send(mine, above_));
}

void Member::lower(std::int64_t b) {
  const at::Tensor sum = block(b);
  const std::int64_t last = lowest(b);
  if (place_ < last) return;
  if (!is_last()) {
    rising_.front()->wait(what_);  // its bytes are about to be overwritten
    rising_.pop_front();
    channel_.receive(writable_bytes_of(sum), above_, Stream::kControl)->wait(what_);
  }
  if (place_ > last) falling_.push_back(send(sum, below_));
}

/// All-gather in a chain: a member sends its part to its neighbours and passes on what comes from
/// one to the other. Every number passes every link once, one way.
void gather_in_chain(comm::Channel& channel, std::span<const int> group, const at::Tensor& bytes,
                     std::span<const comm::BufferRange> parts, std::string_view what) {
  const auto members = static_cast<std::int64_t>(group.size());
  const std::int64_t place = place_in(group, channel.rank());
  const auto of = [&](std::int64_t member) {
    const comm::BufferRange& part = parts[static_cast<std::size_t>(member)];
    return bytes.narrow(0, static_cast<std::int64_t>(part.begin),
                        static_cast<std::int64_t>(part.size));
  };
  std::deque<std::unique_ptr<comm::Transfer>> sent;
  const auto send = [&](std::int64_t of_member, std::int64_t to) {
    if (to < 0 || to == members || of(of_member).numel() == 0) return;
    sent.push_back(channel.send(bytes_of(of(of_member)), group[static_cast<std::size_t>(to)],
                                Stream::kControl));
  };
  const auto receive = [&](std::int64_t of_member, std::int64_t from) {
    if (of_member < 0 || of_member >= members || of(of_member).numel() == 0)
      return std::unique_ptr<comm::Transfer>();
    return channel.receive(writable_bytes_of(of(of_member)), group[static_cast<std::size_t>(from)],
                           Stream::kControl);
  };
  send(place, place - 1);
  send(place, place + 1);
  for (std::int64_t distance = 1; distance < members; ++distance) {
    const auto from_below = receive(place - distance, place - 1);
    const auto from_above = receive(place + distance, place + 1);
    if (from_below) from_below->wait(what);
    if (from_below) send(place - distance, place + 1);
    if (from_above) from_above->wait(what);
    if (from_above) send(place + distance, place - 1);
  }
  for (const auto& transfer : sent) transfer->wait(what);
}

std::span<float> floats_of(const at::Tensor& values) {
  return {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())};
}

}  // namespace

void sum_over_replicas(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                       std::string_view what) {
  if (!values.is_cpu()) return sum_in_chain(channel, group, values, what);
  comm::all_reduce_sum(channel, group, floats_of(values), what);
}

void sum_in_chain(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                  std::string_view what) {
  if (group.size() == 1 || values.numel() == 0) return;
  const at::NoGradGuard no_tape;
  Member(channel, group, values.detach(), {}, what).sum();
}

void sum_for_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                    std::span<const comm::BufferRange> parts, std::string_view what) {
  if (group.size() == 1 || values.numel() == 0) return;
  if (values.is_cpu())
    return comm::reduce_scatter_sum(channel, group, floats_of(values), parts, what);
  const at::NoGradGuard no_tape;
  Member(channel, group, values.detach(), parts, what).sum();
}

void gather_from_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& bytes,
                        std::span<const comm::BufferRange> parts, std::string_view what) {
  if (group.size() == 1) return;
  if (bytes.is_cpu())
    return comm::all_gather_parts(channel, group, writable_bytes_of(bytes), parts, what);
  gather_in_chain(channel, group, bytes, parts, what);
}

}  // namespace trireme::runtime
