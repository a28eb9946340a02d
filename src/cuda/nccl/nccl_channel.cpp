// SPDX-License-Identifier: Apache-2.0
#include "nccl/channel.h"
#include "nccl/nccl_link.h"
#include "nccl/signals.h"
#include "nccl/watchdog.h"
#include "tier/cuda_calls.h"

#include "trireme/comm/waits.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using State = NcclMessage::State;

constexpr Seconds kWatchInterval{0.25};
/// How long an aborted transfer may take to release its buffer.
constexpr Seconds kAbortPatience{1.0};
/// Bytes of the warm-up message over each link.
constexpr std::size_t kFirstMessage = 512;

bool has_ended(State state) {
  return state == State::kDone || state == State::kFailed;
}

class NcclChannel final : public LinkedChannel {
 public:
  NcclChannel(Channel& control, const ChannelOptions& options, int device);
  ~NcclChannel() override;

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  void connect(std::span<const Link> links) override;
  std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) override;
  std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) override;
  void abandon(std::string_view reason) noexcept override;
  void close() override;

  // Called by transfers.
  State state_of(NcclLink& link, const NcclMessagePtr& message);
  void wait(NcclLink& link, const NcclMessagePtr& message, std::string_view what);
  void withdraw(NcclLink& link, const NcclMessagePtr& message) noexcept;
  bool done(Transfer& control);
  void wait(Transfer& control, int peer, std::string_view what);

 private:
  std::unique_ptr<NcclLink> connected(const Link& link);
  void warm_up(NcclLink& link, Stream stream);
  NcclLink* find(int from, int to) const;
  Signals* signals_with(int peer) const;
  NcclLink* link_for(ConstBytes data, const Link& link) const;
  std::unique_ptr<Transfer> start(NcclLink& link, const NcclMessagePtr& message);
  /// Acts on the signals that have come, for all links: another rank may wait for any of them.
  void take_signals();
  void throw_if_failed(NcclLink& link, const NcclMessage& message, std::string_view what);
  /// Throws when another rank has given up or a stop was requested.
  void look_round(int peer, std::string_view what);
  void watch();
  /// Called under the lock after anything that may give up a link: no rank continues without one.
  void abort_if_one_is_lost() noexcept;
  void abort_all(const std::string& problem) noexcept;

  Channel& control_;
  const ChannelOptions options_;
  const c10::DeviceIndex device_;
  /// A receive from this rank itself that has no send: it ends when a rank gives up.
  std::unique_ptr<Transfer> others_failed_;
  /// Guards the links and thereby NCCL; only this thread changes the list of links.
  std::mutex mutex_;
  std::vector<std::unique_ptr<Signals>> signals_;  ///< by the own thread alone
  std::vector<Link> connected_;
  std::vector<std::unique_ptr<NcclLink>> links_;  ///< one for all streams of a direction
  bool is_aborted_ = false;
  std::atomic<Clock::time_point> last_seen_{Clock::now()};  ///< last use by the own thread
  std::unique_ptr<Watchdog> watchdog_;                      // last: it uses all of the above
};

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(NcclChannel& channel, NcclLink& link, NcclMessagePtr message)
      : channel_(channel), link_(link), message_(std::move(message)) {}
  ~NcclTransfer() override { channel_.withdraw(link_, message_); }
  NcclTransfer(const NcclTransfer&) = delete;
  NcclTransfer& operator=(const NcclTransfer&) = delete;
  bool done() override { return has_ended(channel_.state_of(link_, message_)); }
  void wait(std::string_view what) override { channel_.wait(link_, message_, what); }

 private:
  NcclChannel& channel_;
  NcclLink& link_;
  NcclMessagePtr message_;
};

/// A transfer over the other transport. Whoever waits for it acts on signals meanwhile: the other
/// rank may need a message over NCCL first.
class ControlTransfer final : public Transfer {
 public:
  ControlTransfer(NcclChannel& channel, std::unique_ptr<Transfer> transfer, int peer)
      : channel_(channel), transfer_(std::move(transfer)), peer_(peer) {}
  bool done() override { return channel_.done(*transfer_); }
  void wait(std::string_view what) override { channel_.wait(*transfer_, peer_, what); }

 private:
  NcclChannel& channel_;
  std::unique_ptr<Transfer> transfer_;
  int peer_;
};

}  // namespace

std::unique_ptr<LinkedChannel> make_nccl_channel(Channel& control, const ChannelOptions& options,
                                                 int device) {
  return std::make_unique<NcclChannel>(control, options, device);
}

namespace {

NcclChannel::NcclChannel(Channel& control, const ChannelOptions& options, int device)
    : control_(control),
      options_(options),
      device_(static_cast<c10::DeviceIndex>(device)),
      others_failed_(control.receive({}, control.rank(), Stream::kControl)),
      watchdog_(std::make_unique<Watchdog>(kWatchInterval, [this] { watch(); })) {}

NcclChannel::~NcclChannel() {
  watchdog_.reset();
  abort_all("its channel is gone");
}

void NcclChannel::connect(std::span<const Link> links) {
  const c10::cuda::CUDAGuard on_device(device_);
  std::vector<std::pair<NcclLink*, Stream>> first_messages;
  // In the order of `links` on every rank, so that set-up cannot deadlock.
  for (const Link& link : links) {
    if (link.from != rank() && link.to != rank()) continue;
    add_links(connected_, std::span(&link, 1));
    if (find(link.from, link.to) != nullptr) continue;
    std::unique_ptr<NcclLink> made = connected(link);
    first_messages.emplace_back(made.get(), link.stream);
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(made));
  }
  for (const auto& [link, stream] : first_messages) warm_up(*link, stream);
}

std::unique_ptr<NcclLink> NcclChannel::connected(const Link& link) {
  const bool is_to_itself = link.from == link.to;
  const int peer = link.from == rank() ? link.to : link.from;
  if (!is_to_itself && signals_with(peer) == nullptr)
    signals_.push_back(std::make_unique<Signals>(control_, peer));
  std::string id;
  if (link.from == rank()) id = Communicator::make_id();
  if (!is_to_itself) id = broadcast(control_, std::array{link.from, link.to}, id, "set-up of NCCL");
  const Patience patience{options_.timeout, [this, peer] { look_round(peer, "set-up of NCCL"); }};
  return std::make_unique<NcclLink>(link.from, link.to, is_to_itself ? nullptr : signals_with(peer),
                                    id, patience, device_);
}

void NcclChannel::warm_up(NcclLink& link, Stream stream) {
  // Both ends of a link to itself, else the end that this rank has.
  const auto scratch = [] {
    return std::unique_ptr<void, void (*)(void*)>(
        c10::cuda::CUDACachingAllocator::raw_alloc(kFirstMessage),
        c10::cuda::CUDACachingAllocator::raw_delete);
  };
  const auto sent = scratch(), received = scratch();
  std::unique_ptr<Transfer> out, in;
  if (link.from() == rank())
    out = send({static_cast<std::byte*>(sent.get()), kFirstMessage}, link.to(), stream);
  if (link.to() == rank())
    in = receive({static_cast<std::byte*>(received.get()), kFirstMessage}, link.from(), stream);
  if (in) in->wait("the first message over NCCL");
  if (out) out->wait("the first message over NCCL");
}

std::unique_ptr<Transfer> NcclChannel::send(ConstBytes data, int to, Stream stream) {
  NcclLink* const link = link_for(data, {rank(), to, stream});
  if (link == nullptr)
    return std::make_unique<ControlTransfer>(*this, control_.send(data, to, stream), to);
  auto message = std::make_shared<NcclMessage>();
  message->outgoing = true;
  message->stream = stream;
  message->data = const_cast<std::byte*>(data.data());  // only read
  message->size = data.size();
  return start(*link, message);
}

std::unique_ptr<Transfer> NcclChannel::receive(MutableBytes data, int from, Stream stream) {
  NcclLink* const link = link_for(data, {from, rank(), stream});
  if (link == nullptr)
    return std::make_unique<ControlTransfer>(*this, control_.receive(data, from, stream), from);
  auto message = std::make_shared<NcclMessage>();
  message->stream = stream;
  message->data = data.data();
  message->size = data.size();
  return start(*link, message);
}

NcclLink* NcclChannel::find(int from, int to) const {
  for (const auto& one : links_)
    if (one->from() == from && one->to() == to) return one.get();
  return nullptr;
}

Signals* NcclChannel::signals_with(int peer) const {
  for (const auto& one : signals_)
    if (one->peer() == peer) return one.get();
  return nullptr;
}

NcclLink* NcclChannel::link_for(ConstBytes data, const Link& link) const {
  // Without a link, `control` takes it.
  if (data.empty() || std::find(connected_.begin(), connected_.end(), link) == connected_.end())
    return nullptr;
  return tier::is_device_memory(data.data(), device_) ? find(link.from, link.to) : nullptr;
}

std::unique_ptr<Transfer> NcclChannel::start(NcclLink& link, const NcclMessagePtr& message) {
  last_seen_ = Clock::now();
  const std::lock_guard lock(mutex_);
  take_signals();
  link.post(message);
  abort_if_one_is_lost();
  return std::make_unique<NcclTransfer>(*this, link, message);
}

void NcclChannel::take_signals() {
  for (const auto& from_peer : signals_) {
    const int peer = from_peer->peer();
    while (const std::optional<Signal> signal = from_peer->take()) {
      const bool is_sent_here = signal->kind == Signal::Kind::kReady;
      NcclLink* const link = is_sent_here ? find(rank(), peer) : find(peer, rank());
      ensure(link != nullptr, "a signal is about a link");
      link->take(*signal);
    }
  }
}

NcclMessage::State NcclChannel::state_of(NcclLink& link, const NcclMessagePtr& message) {
  last_seen_ = Clock::now();
  const std::lock_guard lock(mutex_);
  take_signals();
  link.look(message);
  abort_if_one_is_lost();
  return message->state;
}

void NcclChannel::wait(NcclLink& link, const NcclMessagePtr& message, std::string_view what) {
  // Until both ranks have their side of the message this rank waits for signals, at first while
  // it acts on those of all ranks, then with the error texts of the other transport; after that
  // the device decides.
  const auto look = [&] {
    {
      const std::lock_guard lock(mutex_);
      link.look_for_errors();
      abort_if_one_is_lost();
    }
    look_round(link.peer(), what);
  };
  if (Signals* const signals = signals_with(link.peer())) {
    const auto is_posted = [&] { return state_of(link, message) == State::kPosted; };
    poll_until({options_.timeout, look}, [&] { return !is_posted() || signals->has_failed(); });
    while (is_posted()) signals->wait(what);
  }
  const Patience patience{options_.timeout, look};
  const bool ended = poll_until(patience, [&] { return has_ended(state_of(link, message)); });
  if (!ended) {
    throw waited_in_vain(rank(), options_.timeout, link.peer(), what,
                         message->state == State::kPosted ? "its other side was not started"
                         : message->outgoing ? "its receive was not started, or the link is stuck"
                                             : "it was sent, but has not come: the link is stuck");
  }
  throw_if_failed(link, *message, what);
}

bool NcclChannel::done(Transfer& control) {
  {
    const std::lock_guard lock(mutex_);
    take_signals();
    abort_if_one_is_lost();
  }
  return control.done();
}

void NcclChannel::wait(Transfer& control, int peer, std::string_view what) {
  poll_until({options_.timeout, [&] { look_round(peer, what); }}, [&] { return done(control); });
  control.wait(what);
}

void NcclChannel::throw_if_failed(NcclLink& link, const NcclMessage& message,
                                  std::string_view what) {
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    if (message.state != State::kFailed) return;
    problem = message.problem;
  }
  look_round(link.peer(), what);  // the cause, if another rank knows it
  throw CommError(concat("rank ", rank(), ": ", problem, ": ", what));
}

void NcclChannel::withdraw(NcclLink& link, const NcclMessagePtr& message) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const bool was_issued = link.withdraw(message);
    abort_if_one_is_lost();
    if (was_issued) poll_until({kAbortPatience, {}}, [&] { return message->ended.query(); });
  } catch (const std::exception&) {
    // The device is lost, and with it all pending messages.
  }
}

void NcclChannel::look_round(int peer, std::string_view what) {
  last_seen_ = Clock::now();
  if (others_failed_ && others_failed_->done()) others_failed_->wait(what);
  if (options_.stop_requested && options_.stop_requested()) throw stopped(rank(), peer, what);
}

void NcclChannel::watch() {
  // A rank that uses the channel notices errors itself. One that has not for the length of two
  // waits, while a message that old has not ended, hangs in CUDA.
  const auto overdue =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(2 * options_.timeout.count()));
  if (last_seen_.load() > overdue) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& link : links_) {
    if (!link->is_overdue(overdue)) continue;
    return abort_all(concat("a message with rank ", link->peer(), " did not end within ",
                            2 * options_.timeout.count(), " s: its transport was aborted"));
  }
}

void NcclChannel::abandon(std::string_view reason) noexcept {
  control_.abandon(reason);
  try {
    const std::lock_guard lock(mutex_);
    abort_all(std::string(reason));
  } catch (const std::exception&) {
    // Out of memory for the reason: the destructor aborts the rest.
  }
}

void NcclChannel::abort_if_one_is_lost() noexcept {
  if (is_aborted_) return;
  for (const auto& link : links_)
    if (link->given_up()) return abort_all(*link->given_up());
}

void NcclChannel::abort_all(const std::string& problem) noexcept {
  is_aborted_ = true;
  std::vector<std::jthread> aborts;  // all at once: see Communicator::abort()
  for (const auto& link : links_) {
    try {
      link->give_up(problem);
      aborts.emplace_back([&link] { link->abort(); });
    } catch (const std::exception&) {
      link->abort();  // no memory or thread left: one after another
    }
  }
}

void NcclChannel::close() {
  watchdog_.reset();
  for (const auto& link : links_) {
    ensure(link->is_idle(), concat("rank ", rank(), " closes with no transfer under way"));
    link->close();
  }
  links_.clear();
  for (const auto& with_peer : signals_) with_peer->send_end();
  for (const auto& with_peer : signals_) with_peer->close();
  signals_.clear();
  const auto end = control_.send({}, rank(), Stream::kControl);
  others_failed_->wait("close");
  end->wait("close");
  others_failed_.reset();
}

}  // namespace
}  // namespace trireme::comm
