// SPDX-License-Identifier: Apache-2.0
#include "nccl/nccl_link.h"

#include "tier/cuda_calls.h"

#include "trireme/comm/waits.h"
#include "trireme/core/error.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <memory>

namespace trireme::comm {
namespace {

using State = NcclMessage::State;

/// Ranks within a link's communicator: the sender is first.
constexpr int kSender = 0, kReceiver = 1;

NcclMessagePtr take_first(std::deque<NcclMessagePtr>& messages) {
  NcclMessagePtr first = messages.front();
  messages.pop_front();
  return first;
}

}  // namespace

NcclLink::NcclLink(int from, int to, Signals* signals, const std::string& id,
                   const Patience& patience, c10::DeviceIndex device)
    : from_(from),
      to_(to),
      signals_(signals),
      own_stream_(device, tier::StreamUse::kMessages),
      communicator_(id, signals == nullptr ? 1 : 2,
                    signals == nullptr || signals->peer() == to ? kSender : kReceiver, patience) {}

bool NcclLink::is_idle() const {
  return issued_.empty() && std::all_of(posted_.begin(), posted_.end(), [](const Posted& one) {
           return one.sends.empty() && one.receives.empty();
         });
}

void NcclLink::post(const NcclMessagePtr& message) {
  if (given_up_) {
    message->state = State::kFailed;
    message->problem = *given_up_;
    return;
  }
  message->ready.record(c10::cuda::getCurrentCUDAStream(stream_.device_index()));
  Posted& posted = this->posted(message->stream);
  (message->outgoing ? posted.sends : posted.receives).push_back(message);
  if (signals_ == nullptr) {
    pass_to_itself(posted);
  } else if (message->outgoing) {
    send_what_is_ready(posted);
  } else {
    signals_->send({.kind = Signal::Kind::kReady, .stream = message->stream});
  }
}

void NcclLink::take(const Signal& signal) {
  if (given_up_) return;
  Posted& posted = this->posted(signal.stream);
  if (signal.kind == Signal::Kind::kReady) {
    ++posted.ready;
    send_what_is_ready(posted);
  } else {
    receive_next(posted, static_cast<std::size_t>(signal.size));
  }
}

void NcclLink::send_what_is_ready(Posted& posted) {
  while (!given_up_ && posted.ready > 0 && !posted.sends.empty()) {
    --posted.ready;
    const NcclMessagePtr message = take_first(posted.sends);
    issue({message}, [&] { communicator_.send(message->data, message->size, kReceiver, stream_); });
    if (given_up_) return;
    signals_->send(
        {.kind = Signal::Kind::kQueued, .stream = message->stream, .size = message->size});
  }
}

void NcclLink::receive_next(Posted& posted, std::size_t sent) {
  ensure(!posted.receives.empty(), "a message is queued once its receive is ready");
  if (posted.receives.front()->size != sent)
    return give_up(sizes_differ_at_receiver(peer(), sent, posted.receives.front()->size));
  const NcclMessagePtr message = take_first(posted.receives);
  issue({message}, [&] { communicator_.receive(message->data, message->size, kSender, stream_); });
}

void NcclLink::pass_to_itself(Posted& posted) {
  while (!given_up_ && !posted.sends.empty() && !posted.receives.empty()) {
    const std::size_t sent = posted.sends.front()->size;
    if (posted.receives.front()->size != sent)
      return give_up(sizes_differ_at_receiver(peer(), sent, posted.receives.front()->size));
    const NcclMessagePtr out = take_first(posted.sends), in = take_first(posted.receives);
    issue({out, in}, [&] { communicator_.pass_to_itself(out->data, in->data, sent, stream_); });
  }
}

template <class Call>
void NcclLink::issue(std::initializer_list<NcclMessagePtr> messages, const Call& call) {
  const c10::cuda::CUDAGuard on_device(stream_.device_index());
  for (const NcclMessagePtr& message : messages) message->ready.block(stream_);
  try {
    call();
  } catch (const CommError& error) {
    for (const NcclMessagePtr& message : messages) {
      message->state = State::kFailed;
      message->problem = error.what();
    }
    return give_up(error.what());
  }
  for (const NcclMessagePtr& message : messages) mark_end(message);
}

void NcclLink::mark_end(const NcclMessagePtr& message) {
  message->ended.record(stream_);
  using Flag = std::shared_ptr<std::atomic<bool>>;
  auto flag = std::make_unique<Flag>(message->has_left);
  const auto set = [](void* data) { **std::unique_ptr<Flag>(static_cast<Flag*>(data)) = true; };
  tier::check(cudaLaunchHostFunc(stream_, set, flag.get()), "cudaLaunchHostFunc");
  static_cast<void>(flag.release());  // owned by the function now
  message->state = State::kIssued;
  message->issued_at = std::chrono::steady_clock::now();
  issued_.push_back(message);
}

void NcclLink::look(const NcclMessagePtr& message) {
  if (message->state != State::kIssued || !message->ended.query()) return;
  message->state = State::kDone;
  std::erase(issued_, message);
}

bool NcclLink::withdraw(const NcclMessagePtr& message) {
  look(message);
  if (message->state == State::kDone || message->state == State::kFailed) return false;
  const bool was_issued = message->state == State::kIssued;
  give_up(stream_given_up(peer()));
  return was_issued;
}

void NcclLink::look_for_errors() {
  if (given_up_) return;
  if (const auto error = communicator_.error()) give_up(*error);
}

bool NcclLink::is_overdue(std::chrono::steady_clock::time_point time) const {
  return std::any_of(issued_.begin(), issued_.end(), [time](const NcclMessagePtr& message) {
    return message->issued_at < time && !*message->has_left;
  });
}

void NcclLink::give_up(const std::string& problem) {
  if (given_up_) return;
  given_up_ = problem;
  const auto fail = [&](std::deque<NcclMessagePtr>& messages) {
    for (const NcclMessagePtr& message : messages) {
      message->state = State::kFailed;
      message->problem = problem;
    }
    messages.clear();
  };
  fail(issued_);
  for (Posted& posted : posted_) {
    fail(posted.sends);
    fail(posted.receives);
  }
}

}  // namespace trireme::comm
