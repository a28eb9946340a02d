// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme::comm {

using State = LocalMessage::State;

namespace {

/// How long a rank that gave up a stream may take to say why.
constexpr Seconds kGiveUpGrace{1.0};

}  // namespace

Exchange::Exchange(int ranks, ChannelOptions options)
    : options_(std::move(options)),
      ranks_(static_cast<std::size_t>(ranks)),
      queues_(ranks_.size() * ranks_.size() * kStreams) {}

void Exchange::start(const std::shared_ptr<LocalMessage>& message) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<LocalMessage> other = take_match(message);
  if (!other) return;
  LocalMessage& sent = message->outgoing ? *message : *other;
  LocalMessage& received = message->outgoing ? *other : *message;
  if (sent.size != received.size) {
    sent.problem = sizes_differ_at_sender(received.rank, sent.size, received.size);
    received.problem = sizes_differ_at_receiver(sent.rank, sent.size, received.size);
    end(sent, State::kFailed);
    end(received, State::kFailed);
    give_up(queues_of(*message));
    return;
  }
  sent.state = received.state = State::kCopying;
  lock.unlock();
  if (sent.size > 0) std::memcpy(received.data, sent.data, sent.size);
  lock.lock();
  end(sent, State::kDone);
  end(received, State::kDone);
}

bool Exchange::ended(const LocalMessage& message) {
  const std::lock_guard lock(mutex_);
  if (message.state == State::kDone || message.state == State::kFailed) return true;
  return message.state == State::kWaiting &&
         (outcome_.cause() ||
          ranks_[static_cast<std::size_t>(message.peer)].phase != RankPhase::kWorking);
}

void Exchange::wait(const LocalMessage& message, std::string_view what) {
  std::unique_lock lock(mutex_);
  Rank& self = ranks_[static_cast<std::size_t>(message.rank)];
  const Rank& peer = ranks_[static_cast<std::size_t>(message.peer)];
  self.state = {RankState::Kind::kWaiting, message.peer, std::string(what)};
  const WaitEnd end = wait_until(lock, self.changed, options_, [&] {
    if (message.state == State::kWaiting)
      return outcome_.cause() || peer.phase != RankPhase::kWorking;
    return message.state != State::kCopying;
  });
  self.state = {RankState::Kind::kBusy, 0, ""};
  if (message.state == State::kDone) return;
  // A rank that gives up a stream is failing; wait for it to report its error.
  if (message.state == State::kFailed && message.problem == stream_given_up(message.peer)) {
    wait_until(lock, self.changed, {std::min(options_.timeout, kGiveUpGrace), {}},
               [&] { return outcome_.is_explained() || peer.phase == RankPhase::kLeft; });
    if (outcome_.is_explained()) throw RankFailed(*outcome_.cause());
  }
  if (message.state == State::kFailed)
    throw_transfer_failed(message.rank, message.peer, message.problem, what);
  if (outcome_.cause()) throw RankFailed(*outcome_.cause());
  if (end == WaitEnd::kEnded)
    throw CommError(concat("rank ", message.rank, ": rank ", message.peer,
                           " has ended and answers no more: ", what));
  if (end == WaitEnd::kStopped) throw stopped(message.rank, message.peer, what);
  const std::string why = explain_wait(message.rank, message.peer, [&](int rank) {
    return ranks_[static_cast<std::size_t>(rank)].state;
  });
  throw waited_in_vain(message.rank, options_.timeout, message.peer, what, why);
}

void Exchange::withdraw(const std::shared_ptr<LocalMessage>& message) {
  std::unique_lock lock(mutex_);
  // The copy runs on the other side's thread and ends without waiting for any rank.
  ranks_[static_cast<std::size_t>(message->rank)].changed.wait(
      lock, [&] { return message->state != State::kCopying; });
  if (message->state != State::kWaiting) return;
  MatchQueues& queues = queues_of(*message);
  std::erase(queues.sends, message);
  std::erase(queues.receives, message);
  message->state = State::kFailed;
  give_up(queues);
}

void Exchange::fail(const Cause& cause) {
  const std::lock_guard lock(mutex_);
  outcome_.report(cause);
  notify_all();
}

std::optional<Cause> Exchange::cause() {
  const std::lock_guard lock(mutex_);
  return outcome_.cause();
}

void Exchange::close(int rank) {
  std::unique_lock lock(mutex_);
  ensure(!under_way(rank), concat("rank ", rank, " closes with no transfer under way"));
  Rank& self = ranks_[static_cast<std::size_t>(rank)];
  self.phase = RankPhase::kClosed;
  self.state.kind = RankState::Kind::kEnded;
  notify_all();
  const WaitEnd end = wait_until(lock, self.changed, options_, [&] {
    return outcome_.cause() || all_closed() || left_unclosed();
  });
  if (outcome_.cause()) throw RankFailed(*outcome_.cause());
  if (all_closed()) return;
  if (end == WaitEnd::kEnded)
    throw CommError(
        concat("rank ", rank, ": rank ", *left_unclosed(), " has ended without closing: close"));
  const std::vector<int> missing = not_closed();
  if (end == WaitEnd::kStopped) throw stopped(rank, missing.front(), "close");
  throw closed_in_vain(rank, options_.timeout, missing);
}

void Exchange::leave(int rank) {
  const std::lock_guard lock(mutex_);
  Rank& self = ranks_[static_cast<std::size_t>(rank)];
  if (self.phase == RankPhase::kWorking) self.phase = RankPhase::kLeft;
  self.state.kind = RankState::Kind::kEnded;
  notify_all();
}

Exchange::MatchQueues& Exchange::queues_of(const LocalMessage& message) {
  const auto sender = static_cast<std::size_t>(message.outgoing ? message.rank : message.peer);
  const auto receiver = static_cast<std::size_t>(message.outgoing ? message.peer : message.rank);
  return queues_[(sender * ranks_.size() + receiver) * kStreams +
                 static_cast<std::size_t>(message.stream)];
}

std::shared_ptr<LocalMessage> Exchange::take_match(const std::shared_ptr<LocalMessage>& message) {
  MatchQueues& queues = queues_of(*message);
  if (queues.given_up) {
    message->problem = stream_given_up(message->peer);
    end(*message, State::kFailed);
    return nullptr;
  }
  auto& others = message->outgoing ? queues.receives : queues.sends;
  if (others.empty()) {
    (message->outgoing ? queues.sends : queues.receives).push_back(message);
    return nullptr;
  }
  std::shared_ptr<LocalMessage> other = std::move(others.front());
  others.pop_front();
  return other;
}

void Exchange::give_up(MatchQueues& queues) {
  queues.given_up = true;
  for (auto* queue : {&queues.sends, &queues.receives}) {
    for (const auto& message : *queue) {
      message->problem = stream_given_up(message->peer);
      end(*message, State::kFailed);
    }
    queue->clear();
  }
}

void Exchange::end(LocalMessage& message, State state) {
  message.state = state;
  ranks_[static_cast<std::size_t>(message.rank)].changed.notify_all();
}

void Exchange::notify_all() {
  for (Rank& rank : ranks_) rank.changed.notify_all();
}

bool Exchange::under_way(int rank) {
  const auto is_ours = [&](const auto& message) { return message->rank == rank; };
  return std::any_of(queues_.begin(), queues_.end(), [&](const MatchQueues& queues) {
    return std::any_of(queues.sends.begin(), queues.sends.end(), is_ours) ||
           std::any_of(queues.receives.begin(), queues.receives.end(), is_ours);
  });
}

bool Exchange::all_closed() const {
  return not_closed().empty();
}

std::vector<int> Exchange::not_closed() const {
  std::vector<int> missing;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].phase != RankPhase::kClosed) missing.push_back(static_cast<int>(r));
  return missing;
}

std::optional<int> Exchange::left_unclosed() const {
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].phase == RankPhase::kLeft) return static_cast<int>(r);
  return std::nullopt;
}

}  // namespace trireme::comm
