// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/replica_sum.h"

#include "tensor_bytes.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

namespace trireme::runtime {
namespace {

using comm::Stream;

/// 16 MiB of floats keep a link busy for longer than a message's beginning and end take.
constexpr std::int64_t kLargestBlock = std::int64_t{1} << 22;
constexpr std::int64_t kSmallestBlock = std::int64_t{1} << 10;
constexpr std::int64_t kBlocks = 64;

/// One member's part. Block b goes through raise(b), then lower(b).
class Member {
 public:
  Member(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
         std::string_view what);

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
  /// Starts the receive of a block's partial sum.
  void expect_partial(std::int64_t b);
  /// The partial sum comes from below, gets this member's part, and goes on.
  void raise(std::int64_t b);
  /// The whole sum comes from above and goes on.
  void lower(std::int64_t b);

  comm::Channel& channel_;
  at::Tensor values_;
  std::string_view what_;
  std::int64_t members_, place_;
  int below_ = -1, above_ = -1;  ///< ranks
  std::int64_t block_, blocks_;

  std::array<at::Tensor, 2> partial_;  ///< of blocks in turns
  std::array<std::unique_ptr<comm::Transfer>, 2> coming_;
  std::deque<std::unique_ptr<comm::Transfer>> rising_, falling_;
};

Member::Member(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
               std::string_view what)
    : channel_(channel),
      values_(values),
      what_(what),
      members_(static_cast<std::int64_t>(group.size())),
      place_(std::find(group.begin(), group.end(), channel.rank()) - group.begin()),
      block_(std::clamp(values.numel() / kBlocks, kSmallestBlock, kLargestBlock)),
      blocks_((values.numel() + block_ - 1) / block_) {
  ensure(place_ < members_, "a member of the group adds its replica's gradients");
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
  // A block is back from the last member, one step each way, when so many more have gone up.
  const std::int64_t away = 2 * (members_ - 1 - place_);
  for (std::int64_t step = 0; step < blocks_ + away; ++step) {
    if (step < blocks_) raise(step);
    if (step >= away) lower(step - away);
  }
  for (const auto& transfer : falling_) transfer->wait(what_);
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
  if (!is_last()) {
    rising_.front()->wait(what_);  // what was sent is about to be written over
    rising_.pop_front();
    channel_.receive(writable_bytes_of(sum), above_, Stream::kControl)->wait(what_);
  }
  if (!is_first()) falling_.push_back(send(sum, below_));
}

}  // namespace

void sum_over_replicas(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                       std::string_view what) {
  if (!values.is_cpu()) return sum_in_chain(channel, group, values, what);
  comm::all_reduce_sum(channel, group,
                       {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                       what);
}

void sum_in_chain(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                  std::string_view what) {
  if (group.size() == 1 || values.numel() == 0) return;
  const at::NoGradGuard no_tape;
  Member(channel, group, values.detach(), what).sum();
}

}  // namespace trireme::runtime
