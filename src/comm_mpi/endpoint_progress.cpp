// The part of the endpoint that runs on the progress thread.
// SPDX-License-Identifier: Apache-2.0
#include "endpoint.h"

#include <chrono>
#include <utility>

namespace trireme::comm {
namespace {

using State = Message::State;
using Kind = ControlMessage::Kind;

}  // namespace

bool Endpoint::poll() {
  const bool moved = requests_.poll();
  const bool drained = lanes_.drain();
  if (lanes_.is_overdue()) give_up_overdue();
  if (reached_ && reached_()) {
    reached_ = nullptr;
    const std::lock_guard lock(mutex_);
    has_reached_ = true;
    changed_.notify_all();
  }
  return moved || drained;
}

void Endpoint::hear(int from, const ControlMessage& message) {
  const auto sender = static_cast<std::size_t>(from);
  switch (message.kind) {
    case Kind::kReady:
      return lanes_.peer_is_ready(from, message);
    case Kind::kComing:
      return lanes_.peer_is_sending(from, message);
    case Kind::kMismatch:
      return lanes_.sizes_differ(from, message);
    case Kind::kAsk: {
      ControlMessage answer{Kind::kAnswer};
      answer.sequence = message.sequence;
      {
        const std::lock_guard lock(mutex_);
        answer.state = static_cast<int>(own_state_.kind);
        answer.rank = own_state_.peer;
        answer.text = own_state_.what;
      }
      return mailbox_.send(from, answer);
    }
    case Kind::kFailed:
    case Kind::kAnswer:
    case Kind::kClosing:
    case Kind::kLeaving:
      break;
  }
  const std::lock_guard lock(mutex_);
  if (message.kind == Kind::kFailed)
    outcome_.hear({.rank = message.rank,
                   .ending = static_cast<Ending>(message.state),
                   .weight = static_cast<Cause::Weight>(message.sequence),
                   .reason = message.text});
  if (message.kind == Kind::kAnswer)
    answers_[message.sequence] = {static_cast<RankState::Kind>(message.state), message.rank,
                                  message.text};
  if (message.kind == Kind::kClosing) farewells_[sender] = Farewell::kClosing;
  if (message.kind == Kind::kLeaving) farewells_[sender] = Farewell::kLeaving;
  changed_.notify_all();
}

void Endpoint::end(Message& message, State state, std::string problem) {
  const std::lock_guard lock(mutex_);
  if (message.state != State::kUnderWay) return;
  message.state = state;
  message.problem = std::move(problem);
  --under_way_;
  changed_.notify_all();
}

/// Memory of an unfinished transfer is about to be freed, and its peer does not move: the only way
/// to keep MPI from accessing it is to make no MPI call any more. The others are told first.
void Endpoint::give_up_overdue() {
  ControlMessage word;
  {
    const std::lock_guard lock(mutex_);
    if (!outcome_.cause())
      outcome_.report(last_error_.value_or(Cause{.rank = rank(),
                                                 .weight = Cause::Weight::kConsequence,
                                                 .reason = "gave up in the middle of a transfer"}));
    word = word_of(*outcome_.cause());
  }
  mailbox_.send_to_others(word);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(kAbandonPatience.count());
  while (mailbox_.unsent() > 0 && Clock::now() < end) requests_.poll();
  throw CommError("a peer stopped in the middle of a transfer that was given up");
}

void Endpoint::broke(const std::exception& error) {
  const std::lock_guard lock(mutex_);
  broken_ = error.what();
  changed_.notify_all();
}

}  // namespace trireme::comm
