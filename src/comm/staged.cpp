// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/staged.h"

#include "trireme/comm/cause.h"
#include "trireme/comm/waits.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <set>
#include <tuple>

namespace trireme::comm {
namespace {

/// One direction of one stream between this rank and a peer.
struct StreamDirection {
  bool outgoing = false;
  int peer = 0;
  Stream stream = Stream::kOutputs;
  auto operator<=>(const StreamDirection&) const = default;
};

struct Staged {
  StreamDirection direction;
  std::shared_ptr<std::byte> host;
  std::size_t size = 0;
  std::unique_ptr<HostCopies::Copy> copy;
  std::unique_ptr<Transfer> transfer;  ///< of the host memory; null for a send not passed on yet
  std::exception_ptr problem;
  MutableBytes target = {};  ///< of a receive
  bool arrived = false;      ///< the copy of a receive to the device was queued
};
using StagedPtr = std::shared_ptr<Staged>;

class StagedChannel final : public Channel {
 public:
  StagedChannel(Channel& control, std::unique_ptr<HostCopies> copies)
      : control_(control), copies_(std::move(copies)) {}
  ~StagedChannel() override;

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) override;
  std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) override;
  void abandon(std::string_view reason) noexcept override { control_.abandon(reason); }
  void close() override;

  // Called by transfers.
  bool done(const StagedPtr& message);
  void wait(const StagedPtr& message, std::string_view what);
  void withdraw(const StagedPtr& message) noexcept;
  /// Passes on every send; called before this rank waits for another one.
  void hand_on_all();
  /// Passes on sends whose bytes are on the host.
  void hand_on_ended();

 private:
  void require_open(const StreamDirection& direction) const;
  void hand_on(const StagedPtr& message);
  void hand_on_all_of(const StreamDirection& direction);
  void arrive(const StagedPtr& message);

  Channel& control_;
  std::unique_ptr<HostCopies> copies_;
  std::map<StreamDirection, std::deque<StagedPtr>> leaving_;  ///< sends not passed on yet
  std::deque<StagedPtr> arriving_;  ///< copies to the device that may not have ended
  std::set<StreamDirection> given_up_;
};

class StagedTransfer final : public Transfer {
 public:
  StagedTransfer(StagedChannel& channel, StagedPtr message)
      : channel_(channel), message_(std::move(message)) {}
  ~StagedTransfer() override { channel_.withdraw(message_); }
  StagedTransfer(const StagedTransfer&) = delete;
  StagedTransfer& operator=(const StagedTransfer&) = delete;
  bool done() override { return channel_.done(message_); }
  void wait(std::string_view what) override { channel_.wait(message_, what); }

 private:
  StagedChannel& channel_;
  StagedPtr message_;
};

/// A transfer of host memory: waiting for it is waiting for another rank, too.
class PlainTransfer final : public Transfer {
 public:
  PlainTransfer(StagedChannel& channel, std::unique_ptr<Transfer> transfer)
      : channel_(channel), transfer_(std::move(transfer)) {}
  bool done() override {
    channel_.hand_on_ended();
    return transfer_->done();
  }
  void wait(std::string_view what) override {
    channel_.hand_on_all();
    transfer_->wait(what);
  }

 private:
  StagedChannel& channel_;
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace

std::unique_ptr<Channel> make_staged_channel(Channel& control, std::unique_ptr<HostCopies> copies) {
  return std::make_unique<StagedChannel>(control, std::move(copies));
}

namespace {

StagedChannel::~StagedChannel() {
  for (const StagedPtr& message : arriving_) {
    try {
      message->copy->wait();
    } catch (const std::exception&) {  // the device is lost, which an earlier error reports
    }
  }
}

std::unique_ptr<Transfer> StagedChannel::send(ConstBytes data, int to, Stream stream) {
  const StreamDirection direction{true, to, stream};
  require_open(direction);
  hand_on_ended();
  if (data.empty() || !copies_->is_device_memory(data.data())) {
    hand_on_all_of(direction);  // messages keep their order
    return std::make_unique<PlainTransfer>(*this, control_.send(data, to, stream));
  }
  auto message = std::make_shared<Staged>();
  message->direction = direction;
  message->size = data.size();
  message->host = copies_->take(data.size());
  message->copy = copies_->out(message->host.get(), data);
  leaving_[direction].push_back(message);
  return std::make_unique<StagedTransfer>(*this, message);
}

std::unique_ptr<Transfer> StagedChannel::receive(MutableBytes data, int from, Stream stream) {
  const StreamDirection direction{false, from, stream};
  require_open(direction);
  hand_on_ended();
  if (data.empty() || !copies_->is_device_memory(data.data()))
    return std::make_unique<PlainTransfer>(*this, control_.receive(data, from, stream));
  auto message = std::make_shared<Staged>();
  message->direction = direction;
  message->size = data.size();
  message->target = data;
  message->host = copies_->take(data.size());
  message->transfer = control_.receive({message->host.get(), data.size()}, from, stream);
  return std::make_unique<StagedTransfer>(*this, message);
}

void StagedChannel::close() {
  const bool all_left = std::all_of(leaving_.begin(), leaving_.end(),
                                    [](const auto& entry) { return entry.second.empty(); });
  ensure(all_left, concat("rank ", rank(), " closes with no transfer under way"));
  for (const StagedPtr& message : arriving_) message->copy->wait();
  arriving_.clear();
}

bool StagedChannel::done(const StagedPtr& message) {
  hand_on_ended();
  if (message->arrived || message->problem) return true;
  if (!message->transfer || !message->transfer->done()) return false;
  if (message->direction.outgoing) return true;
  try {
    message->transfer->wait("a message that has ended");
    arrive(message);
  } catch (const std::exception&) {
    message->problem = std::current_exception();
  }
  return true;
}

void StagedChannel::wait(const StagedPtr& message, std::string_view what) {
  if (message->problem) std::rethrow_exception(message->problem);
  hand_on_all();
  if (message->arrived) return;
  message->transfer->wait(what);
  if (!message->direction.outgoing) arrive(message);
}

void StagedChannel::withdraw(const StagedPtr& message) noexcept {
  const bool was_handed_on = message->transfer != nullptr;
  if (!was_handed_on) {
    std::erase(leaving_[message->direction], message);
    given_up_.insert(message->direction);
  }
  if (message->direction.outgoing) {
    try {
      message->copy->wait();  // it writes to the host memory that is freed now
    } catch (const std::exception&) {
      message->problem = std::current_exception();  // the device is lost, and so is the copy
    }
  }
  message->transfer.reset();
}

void StagedChannel::require_open(const StreamDirection& direction) const {
  if (given_up_.contains(direction)) throw GivenUpError(stream_given_up(direction.peer));
}

void StagedChannel::hand_on(const StagedPtr& message) {
  message->copy->wait();
  message->transfer = control_.send({message->host.get(), message->size}, message->direction.peer,
                                    message->direction.stream);
}

void StagedChannel::hand_on_ended() {
  for (auto& [direction, messages] : leaving_) {
    while (!messages.empty() && messages.front()->copy->ended()) {
      hand_on(messages.front());
      messages.pop_front();
    }
  }
  while (!arriving_.empty() && arriving_.front()->copy->ended()) arriving_.pop_front();
}

void StagedChannel::hand_on_all() {
  for (auto& [direction, messages] : leaving_) hand_on_all_of(direction);
}

void StagedChannel::hand_on_all_of(const StreamDirection& direction) {
  std::deque<StagedPtr>& messages = leaving_[direction];
  while (!messages.empty()) {
    hand_on(messages.front());
    messages.pop_front();
  }
}

void StagedChannel::arrive(const StagedPtr& message) {
  message->copy = copies_->in(message->target, message->host.get());
  message->arrived = true;
  arriving_.push_back(message);
}

}  // namespace
}  // namespace trireme::comm
