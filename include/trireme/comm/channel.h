// The transport between ranks: messages and small collectives over byte views. Backends: `local`
// (ranks as threads of one process), MPI, NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trireme::comm {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// Independent message streams between the same two ranks; messages of one stream from one rank to
/// another arrive in the order in which they were sent. Backends create one communicator per stream
/// at start, in this order.
enum class Stream {
  kOutputs,
  kGradients,
  kControl,
  kSignals,  ///< of a channel whose messages go over another transport
};
inline constexpr int kStreams = 4;

/// A send or receive in progress. Its buffer must not change (send) or be touched (receive) before
/// it is done.
class Transfer {
 public:
  /// Withdraws a transfer that has not ended: afterwards its buffer is neither read nor written.
  /// May block for about a second if the peer stopped in the middle of it. The stream between the
  /// two ranks is then given up: its later transfers throw. For cleanup after an error.
  virtual ~Transfer() = default;
  /// Whether it has ended, successfully or not; never blocks.
  virtual bool done() = 0;
  /// Blocks until it has ended. Throws CommError "rank 1: waited 60 s for rank 2: WHAT (WHY)" after
  /// the channel's timeout, and immediately if the sizes differ, the transport failed or another
  /// rank gave up; throws Interrupted if the channel's stop flag is set. `what` names the wait,
  /// e.g. "3:receive_input 4"; WHY is what rank 2 itself was waiting for. After a timeout or
  /// Interrupted the transfer is still in progress and may be waited for again.
  virtual void wait(std::string_view what) = 0;
};

/// One rank's end of the transport. Used by one thread at a time. Collective calls are marked as
/// such.
class Channel {
 public:
  virtual ~Channel() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts a message; returns immediately. The n-th send of a stream from one rank to another
  /// matches the n-th receive there, which must have exactly the same size; otherwise the
  /// receiver's wait throws, naming both sizes, and the stream is given up. Not buffered: the send
  /// of a large message ends only after its receive was started. A rank may send to itself.
  virtual std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) = 0;
  virtual std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) = 0;

  /// Tells every rank, as far as the transport still can, that this rank gives up, so that their
  /// waits end immediately with CommError "rank 2 failed: REASON". Called once, during cleanup; a
  /// rank that gives up because of another rank's failure passes on that rank's reason. Never
  /// throws, never blocks for long.
  virtual void abandon(std::string_view reason) noexcept = 0;

  /// Collective; ends a successful run, with no transfer in progress. The channel must not be used
  /// afterwards. Waits for the other ranks within the timeout.
  virtual void close() = 0;
};

/// Timeout and stop requests of a channel.
struct ChannelOptions {
  Seconds timeout{60};
  /// Asked during waits, by the waiting thread; true ends them with Interrupted. May be empty.
  std::function<bool()> stop_requested;
};

// Collectives over Stream::kControl, implemented once with sends and receives, so that every
// backend gives the same bits. `group` lists the participating ranks in order; each of them must
// call with the same group.

/// All ranks' contributions (any sizes), in the group's order, on every rank.
std::vector<std::vector<std::byte>> all_gather(Channel& channel, std::span<const int> group,
                                               ConstBytes mine, std::string_view what);
/// The same for text.
std::vector<std::string> all_gather(Channel& channel, std::span<const int> group,
                                    const std::string& mine, std::string_view what);
/// The same for elements, in the memory layout that all ranks share.
template <class Element>
std::vector<std::vector<Element>> all_gather(Channel& channel, std::span<const int> group,
                                             const std::vector<Element>& mine,
                                             std::string_view what) {
  static_assert(std::is_trivially_copyable_v<Element>);
  std::vector<std::vector<Element>> all;
  for (const auto& bytes : all_gather(channel, group, std::as_bytes(std::span(mine)), what)) {
    all.emplace_back(bytes.size() / sizeof(Element));
    if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

/// Sum in the group's order, element by element, the same bits on every rank: ((g0 + g1) + g2) +
/// ... Each rank sums one share and passes it round (reduce-scatter, then all-gather), sending 2
/// (n-1)/n of the data.
void all_reduce_sum(Channel& channel, std::span<const int> group, std::span<float> values,
                    std::string_view what);

/// Elements [begin, begin + size) of a buffer that every member of a group holds.
struct BufferRange {
  std::size_t begin = 0, size = 0;
};

/// The reduce-scatter half of all_reduce_sum, with one disjoint range of any size per member: a
/// member's own range holds the sum afterwards, with the same bits; the rest is unchanged.
void reduce_scatter_sum(Channel& channel, std::span<const int> group, std::span<float> values,
                        std::span<const BufferRange> parts, std::string_view what);
/// The all-gather half, on bytes: every member receives the other members' ranges.
void all_gather_parts(Channel& channel, std::span<const int> group, MutableBytes values,
                      std::span<const BufferRange> parts, std::string_view what);

/// Returns the `text` of the group's first rank, on every rank.
std::string broadcast(Channel& channel, std::span<const int> group, const std::string& text,
                      std::string_view what);
/// The same of a value without pointers, such as a number or a struct of numbers.
template <class Value>
requires std::is_trivially_copyable_v<Value> Value broadcast(Channel& channel,
                                                             std::span<const int> group,
                                                             const Value& value,
                                                             std::string_view what) {
  std::string bytes(sizeof(Value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(Value));
  bytes = broadcast(channel, group, bytes, what);
  Value result = value;
  std::memcpy(&result, bytes.data(), sizeof(Value));
  return result;
}

/// Returns when every rank of the group has called.
void barrier(Channel& channel, std::span<const int> group, std::string_view what);

/// Collective over all ranks: whether `mine` is true on any of them.
bool any_of(Channel& channel, bool mine, std::string_view what);

/// 0..size-1.
std::vector<int> everyone(const Channel& channel);

}  // namespace trireme::comm
