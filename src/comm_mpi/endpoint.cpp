// SPDX-License-Identifier: Apache-2.0
#include "endpoint.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace trireme::comm {
namespace {

using State = Message::State;
using Kind = ControlMessage::Kind;

/// Timeout of a question; a running progress thread answers within 20 ms.
constexpr Seconds kAnswerPatience{1.0};
/// How long end_job() waits for the other ranks to report their causes.
constexpr Seconds kSettleGrace{2.0};
/// Launchers pass on what ranks print through pipes, and MPICH's loses what is still in them when
/// MPI_Abort is called.
constexpr std::chrono::milliseconds kPrintPatience{100};
/// How long MPI_Abort may take to end all ranks.
constexpr std::chrono::seconds kAbortPatience{5};

std::size_t stream_number(int peer, Stream stream, bool outgoing) {
  return (static_cast<std::size_t>(peer) * kStreams + static_cast<std::size_t>(stream)) * 2 +
         (outgoing ? 1U : 0U);
}

}  // namespace

ControlMessage word_of(const Cause& cause) {
  ControlMessage word{Kind::kFailed};
  word.rank = cause.rank;
  word.state = static_cast<int>(cause.ending);
  word.sequence = static_cast<std::uint64_t>(cause.weight);
  word.text = cause.reason;
  return word;
}

Endpoint::Endpoint(const Communicators& world, ChannelOptions options, std::size_t piece)
    : world_(world),
      options_(std::move(options)),
      mailbox_(world_, requests_,
               [this](int from, const ControlMessage& message) { hear(from, message); }),
      lanes_(world_, requests_, piece,
             {[this](int to, const ControlMessage& message) { mailbox_.send(to, message); },
              [this](Message& message, State state, std::string problem) {
                end(message, state, std::move(problem));
              },
              [this](int peer, Stream stream, bool outgoing) {
                const std::lock_guard lock(mutex_);
                given_up_[stream_number(peer, stream, outgoing)] = true;
              }}),
      given_up_(static_cast<std::size_t>(world.size) * kStreams * 2, false),
      farewells_(static_cast<std::size_t>(world.size), Farewell::kNone),
      thread_({[this] { return poll(); }, [this] { return lanes_.pace(); },
               [this](const std::exception& error) { broke(error); }}) {}

MessagePtr Endpoint::start(Message message) {
  ensure(message.peer >= 0 && message.peer < size(),
         concat("rank ", message.peer, " is one of ", size()));
  const bool small = message.size <= kSmallMessage;
  if (small && message.outgoing) {
    message.copy.assign(message.data, message.data + message.size);
  } else if (small) {
    message.copy.resize(kSmallMessage);
  }
  const auto shared = std::make_shared<Message>(std::move(message));
  {
    const std::lock_guard lock(mutex_);
    if (given_up_[stream_number(shared->peer, shared->stream, shared->outgoing)]) {
      shared->state = State::kFailed;
      shared->problem = stream_given_up(shared->peer);
      return shared;
    }
    if (small && shared->outgoing) {
      shared->state = State::kDone;
    } else {
      ++under_way_;
    }
  }
  thread_.post([this, shared] { lanes_.start(shared); });
  return shared;
}

bool Endpoint::ended(const Message& message) {
  const std::lock_guard lock(mutex_);
  return message.state != State::kUnderWay || outcome_.cause() || broken_;
}

void Endpoint::wait(const Message& message, std::string_view what) {
  std::unique_lock lock(mutex_);
  if (message.state == State::kDone) return;
  own_state_ = {RankState::Kind::kWaiting, message.peer, std::string(what)};
  lock.unlock();
  const ProgressThread::Attention attention(thread_);
  lock.lock();
  const WaitEnd end = wait_until(lock, changed_, options_, [&] {
    return message.state != State::kUnderWay || outcome_.cause() || broken_;
  });
  std::string why;
  if (end == WaitEnd::kTimedOut) {
    lock.unlock();
    why = why_waiting(message.peer);
    lock.lock();
  }
  own_state_ = {RankState::Kind::kBusy, 0, ""};
  // The transfer may have ended while the others were asked.
  if (message.state == State::kDone) return;
  try {
    if (message.state == State::kFailed)
      throw_transfer_failed(rank(), message.peer, message.problem, what);
    throw_if_failed();
    if (end == WaitEnd::kStopped) throw stopped(rank(), message.peer, what);
    throw waited_in_vain(rank(), options_.timeout, message.peer, what, why);
  } catch (const Error& error) {
    last_error_ = cause_of(rank(), error);
    throw;
  }
}

void Endpoint::withdraw(const MessagePtr& message) {
  std::unique_lock lock(mutex_);
  if (message->state != State::kUnderWay || broken_) return;
  thread_.post([this, message] { lanes_.withdraw(message); });
  changed_.wait(lock, [&] { return message->state != State::kUnderWay || broken_; });
}

void Endpoint::abandon(const Cause& own) {
  ControlMessage word;
  {
    const std::lock_guard lock(mutex_);
    outcome_.report(own);
    word = word_of(*outcome_.cause());
  }
  thread_.post([this, word] { mailbox_.send_to_others(word); });
  wait_on_progress([this] { return mailbox_.unsent() == 0; }, kAbandonPatience);
}

void Endpoint::close() {
  {
    const std::lock_guard lock(mutex_);
    ensure(under_way_ == 0, concat("rank ", rank(), " closes with no transfer under way"));
    own_state_.kind = RankState::Kind::kEnded;
    farewells_[static_cast<std::size_t>(rank())] = Farewell::kClosing;
  }
  thread_.post([this] { mailbox_.send_to_others({Kind::kClosing}); });
  const ProgressThread::Attention attention(thread_);
  std::unique_lock lock(mutex_);
  const WaitEnd end = wait_until(lock, changed_, options_, [this] {
    return all_said(Farewell::kClosing) || outcome_.cause() || broken_;
  });
  throw_if_failed();
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r)
    if (farewells_[static_cast<std::size_t>(r)] != Farewell::kClosing) missing.push_back(r);
  if (!missing.empty() && end == WaitEnd::kStopped) throw stopped(rank(), missing.front(), "close");
  if (!missing.empty()) throw closed_in_vain(rank(), options_.timeout, missing);
  lock.unlock();
  // Only the receive of the next control message may be left now; it is cancelled too.
  if (!wait_on_progress([this] { return requests_.under_way() <= 1; }, options_.timeout))
    throw closed_in_vain(rank(), options_.timeout, {});
  thread_.post([this] { mailbox_.stop_receiving(); });
  if (!wait_on_progress([this] { return requests_.under_way() == 0; }, options_.timeout))
    throw closed_in_vain(rank(), options_.timeout, {});
}

void Endpoint::stop() {
  thread_.stop();
  const std::lock_guard lock(mutex_);
  broken_ = "it was closed";
}

void Endpoint::end_job(const Cause& own, const std::function<void(const Cause&)>& say) {
  const Cause cause = settle(own);
  // Several aborts at once garble each other's output; another rank aborts only if the first hangs.
  if (cause.rank != rank()) std::this_thread::sleep_for(kAbortPatience);
  say(cause);
  std::fflush(nullptr);
  std::this_thread::sleep_for(kPrintPatience);
  const int exit_code = static_cast<int>(cause.ending);
  thread_.post_last([exit_code] { MPI_Abort(MPI_COMM_WORLD, exit_code); });
  std::this_thread::sleep_for(kAbortPatience);
  std::_Exit(exit_code);  // MPI itself hangs
}

Cause Endpoint::settle(const Cause& own) {
  abandon(own);
  thread_.post([this] { mailbox_.send_to_others({Kind::kLeaving}); });
  const ProgressThread::Attention attention(thread_);
  std::unique_lock lock(mutex_);
  farewells_[static_cast<std::size_t>(rank())] = Farewell::kLeaving;
  const auto all_leave = [this] { return all_said(Farewell::kLeaving); };
  wait_until(lock, changed_, {kSettleGrace, {}}, all_leave);
  // A consequence does not end the job while the rank that knows the cause may still report it.
  wait_until(lock, changed_, {options_.timeout, {}},
             [&] { return outcome_.is_explained() || broken_ || all_leave(); });
  return *outcome_.cause();
}

RankState Endpoint::state_of(int peer) {
  std::unique_lock lock(mutex_);
  if (peer == rank()) return own_state_;
  const std::uint64_t question = next_question_++;
  lock.unlock();
  ControlMessage ask{Kind::kAsk};
  ask.sequence = question;
  thread_.post([this, peer, ask] { mailbox_.send(peer, ask); });
  lock.lock();
  wait_until(lock, changed_, {kAnswerPatience, {}},
             [&] { return answers_.contains(question) || broken_; });
  const auto answer = answers_.find(question);
  return answer == answers_.end() ? RankState{} : answer->second;
}

std::string Endpoint::why_waiting(int peer) {
  return explain_wait(rank(), peer, [this](int other) { return state_of(other); });
}

void Endpoint::throw_if_failed() {
  if (outcome_.cause()) throw RankFailed(*outcome_.cause());
  if (broken_) throw CommError(concat("rank ", rank(), ": the transport failed: ", *broken_));
}

bool Endpoint::wait_on_progress(std::function<bool()> reached, Seconds patience) {
  const ProgressThread::Attention attention(thread_);
  std::unique_lock lock(mutex_);
  has_reached_ = false;
  thread_.post([this, reached = std::move(reached)] { reached_ = reached; });
  wait_until(lock, changed_, {patience, {}}, [this] { return has_reached_ || broken_; });
  return has_reached_;
}

bool Endpoint::all_said(Farewell farewell) const {
  return std::all_of(farewells_.begin(), farewells_.end(),
                     [&](Farewell said) { return said == farewell; });
}

}  // namespace trireme::comm
