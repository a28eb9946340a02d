// Collectives on top of sends and receives. All have the same form, which cannot deadlock however
// little the transport buffers: start every receive, start every send, wait for all.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/channel.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace trireme::comm {
namespace {

/// One rank's view of a collective call. Members are numbered 0..n-1 in the group's order.
struct Call {
  Channel& channel;
  std::span<const int> group;
  std::size_t me;  ///< this rank's place in the group
  std::string_view what;
};

Call enter(Channel& channel, std::span<const int> group, std::string_view what);

/// Transfers that are waited for together. Declare it after the buffers that the transfers use.
class Round {
 public:
  explicit Round(const Call& call) : call_(call) {}
  void receive(MutableBytes data, std::size_t from) {
    transfers_.push_back(call_.channel.receive(data, call_.group[from], Stream::kControl));
  }
  void send(ConstBytes data, std::size_t to) {
    transfers_.push_back(call_.channel.send(data, call_.group[to], Stream::kControl));
  }
  void wait() {
    for (const auto& transfer : transfers_) transfer->wait(call_.what);
    transfers_.clear();
  }

 private:
  const Call& call_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

/// Elements of a sum that are exchanged at once; bounds the scratch memory to this many floats.
constexpr std::size_t kSumBlock = std::size_t{1} << 20;

/// The range that each member sums, of a buffer or of a block of it; indexed by member.
using Parts = std::vector<std::span<float>>;

/// Reduce-scatter: a member receives all others' values of its own part and adds them in the
/// group's order.
void sum_parts(const Call& call, const Parts& parts);
/// All-gather: sends every member's part to all others.
void gather_parts(const Call& call, std::span<const MutableBytes> parts);

/// Where the share of member `j` of `n` begins among `size` elements: shares are nearly equal, and
/// some are empty if there are more members than elements.
std::size_t share_begin(std::size_t size, std::size_t j, std::size_t n) {
  return size * j / n;
}

std::span<float> share(std::span<float> values, std::size_t j, std::size_t n) {
  const std::size_t begin = share_begin(values.size(), j, n);
  return values.subspan(begin, share_begin(values.size(), j + 1, n) - begin);
}

}  // namespace

std::vector<std::vector<std::byte>> all_gather(Channel& channel, std::span<const int> group,
                                               ConstBytes mine, std::string_view what) {
  const Call call = enter(channel, group, what);
  std::vector<std::uint64_t> sizes(group.size(), mine.size());
  std::vector<std::vector<std::byte>> gathered(group.size());
  const std::uint64_t my_size = mine.size();
  Round round(call);
  for (std::size_t j = 0; j < group.size(); ++j)
    if (j != call.me) round.receive(std::as_writable_bytes(std::span(&sizes[j], 1)), j);
  for (std::size_t j = 0; j < group.size(); ++j)
    if (j != call.me) round.send(std::as_bytes(std::span(&my_size, 1)), j);
  round.wait();

  gathered[call.me].assign(mine.begin(), mine.end());
  for (std::size_t j = 0; j < group.size(); ++j) {
    if (j == call.me) continue;
    gathered[j].resize(sizes[j]);
    round.receive(gathered[j], j);
  }
  for (std::size_t j = 0; j < group.size(); ++j)
    if (j != call.me) round.send(mine, j);
  round.wait();
  return gathered;
}

std::vector<std::string> all_gather(Channel& channel, std::span<const int> group,
                                    const std::string& mine, std::string_view what) {
  std::vector<std::string> all;
  for (const auto& bytes : all_gather(channel, group, std::as_bytes(std::span(mine)), what))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

void all_reduce_sum(Channel& channel, std::span<const int> group, std::span<float> values,
                    std::string_view what) {
  const Call call = enter(channel, group, what);
  if (group.size() == 1) return;
  for (std::size_t begin = 0; begin < values.size(); begin += kSumBlock) {
    const auto block = values.subspan(begin, std::min(kSumBlock, values.size() - begin));
    Parts parts;
    std::vector<MutableBytes> bytes;
    for (std::size_t j = 0; j < group.size(); ++j) {
      parts.push_back(share(block, j, group.size()));
      bytes.push_back(std::as_writable_bytes(parts.back()));
    }
    sum_parts(call, parts);
    gather_parts(call, bytes);
  }
}

void reduce_scatter_sum(Channel& channel, std::span<const int> group, std::span<float> values,
                        std::span<const BufferRange> parts, std::string_view what) {
  const Call call = enter(channel, group, what);
  ensure(parts.size() == group.size(), "a part for every member");
  if (group.size() == 1) return;
  const std::size_t block = kSumBlock / group.size() + 1;
  std::size_t longest = 0;
  for (const BufferRange& part : parts) longest = std::max(longest, part.size);
  for (std::size_t done = 0; done < longest; done += block) {
    Parts now;
    for (const BufferRange& part : parts) {
      const std::size_t begin = std::min(done, part.size);
      now.push_back(values.subspan(part.begin + begin, std::min(block, part.size - begin)));
    }
    sum_parts(call, now);
  }
}

void all_gather_parts(Channel& channel, std::span<const int> group, MutableBytes values,
                      std::span<const BufferRange> parts, std::string_view what) {
  const Call call = enter(channel, group, what);
  ensure(parts.size() == group.size(), "a part for every member");
  std::vector<MutableBytes> bytes;
  for (const BufferRange& part : parts) bytes.push_back(values.subspan(part.begin, part.size));
  gather_parts(call, bytes);
}

std::string broadcast(Channel& channel, std::span<const int> group, const std::string& text,
                      std::string_view what) {
  const Call call = enter(channel, group, what);
  std::uint64_t size = text.size();
  std::string received;
  Round round(call);
  if (call.me == 0) {
    for (std::size_t j = 1; j < group.size(); ++j) {
      round.send(std::as_bytes(std::span(&size, 1)), j);
      round.send(std::as_bytes(std::span(text)), j);
    }
    round.wait();
    return text;
  }
  round.receive(std::as_writable_bytes(std::span(&size, 1)), 0);
  round.wait();
  received.resize(size);
  round.receive(std::as_writable_bytes(std::span(received)), 0);
  round.wait();
  return received;
}

void barrier(Channel& channel, std::span<const int> group, std::string_view what) {
  const Call call = enter(channel, group, what);
  const std::size_t n = group.size();
  // Dissemination (Hensgen, Finkel, Manber 1988): after round k a member has heard of the 2^k - 1
  // members before it.
  for (std::size_t distance = 1; distance < n; distance *= 2) {
    Round round(call);
    round.receive({}, (call.me + n - distance) % n);
    round.send({}, (call.me + distance) % n);
    round.wait();
  }
}

bool any_of(Channel& channel, bool mine, std::string_view what) {
  const auto all = all_gather(channel, everyone(channel), std::vector<char>(1, mine ? 1 : 0), what);
  return std::any_of(all.begin(), all.end(), [](const auto& one) { return one.at(0) != 0; });
}

std::vector<int> everyone(const Channel& channel) {
  std::vector<int> ranks(static_cast<std::size_t>(channel.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

namespace {

Call enter(Channel& channel, std::span<const int> group, std::string_view what) {
  const auto found = std::find(group.begin(), group.end(), channel.rank());
  ensure(found != group.end(),
         concat("rank ", channel.rank(), " is in the group of the collective '", what, "'"));
  return {channel, group, static_cast<std::size_t>(found - group.begin()), what};
}

/// Starts from the first member's values, not from zero, so that the bits are those of ((g0 + g1) +
/// g2) + ..., even for -0. Empty parts are not sent; all members know which parts are empty.
void sum_parts(const Call& call, const Parts& parts) {
  const std::size_t n = call.group.size();
  const std::span<float> own = parts[call.me];
  std::vector<float> of_members(own.size() * n);
  const auto of = [&](std::size_t j) {
    return std::span<float>(of_members).subspan(j * own.size(), own.size());
  };
  Round round(call);
  for (std::size_t j = 0; j < n; ++j)
    if (j != call.me && !own.empty()) round.receive(std::as_writable_bytes(of(j)), j);
  for (std::size_t j = 0; j < n; ++j)
    if (j != call.me && !parts[j].empty()) round.send(std::as_bytes(parts[j]), j);
  round.wait();

  std::copy(own.begin(), own.end(), of(call.me).begin());
  const std::span<float> sum = of(0);
  for (std::size_t j = 1; j < n; ++j) {
    const std::span<const float> next = of(j);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

void gather_parts(const Call& call, std::span<const MutableBytes> parts) {
  Round round(call);
  for (std::size_t j = 0; j < parts.size(); ++j)
    if (j != call.me && !parts[j].empty()) round.receive(parts[j], j);
  for (std::size_t j = 0; j < parts.size(); ++j)
    if (j != call.me && !parts[call.me].empty()) round.send(parts[call.me], j);
  round.wait();
}

}  // namespace
}  // namespace trireme::comm
