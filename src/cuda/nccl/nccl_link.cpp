// SPDX-License-Identifier: Apache-2.0
#include "nccl/nccl_link.h"

#include "tier/cuda_calls.h"

#include "trireme/comm/waits.h"
#include "trireme/core/error.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace trireme::comm {
namespace {

using State = NcclMessage::State;

/// Ranks within a link's communicator: the sender is first.
constexpr int kSender = 0, kReceiver = 1;

c10::cuda::CUDAStream new_stream(c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard on_device(device);
  int least = 0, greatest = 0;
  tier::check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
              "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  tier::check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
              "cudaStreamCreateWithPriority");
  return c10::cuda::getStreamFromExternal(stream, device);
}

}  // namespace

OwnStream::OwnStream(c10::DeviceIndex device) : stream_(new_stream(device)) {}

OwnStream::~OwnStream() {
  cudaStreamDestroy(stream_.stream());  // pending work still ends
}

NcclLink::NcclLink(const Link& link, int rank, const std::string& id, const Patience& patience,
                   c10::DeviceIndex device)
    : link_(link),
      rank_(rank),
      own_stream_(device),
      communicator_(id, link.from == link.to ? 1 : 2, rank == link.from ? kSender : kReceiver,
                    patience) {}

void NcclLink::post(const NcclMessagePtr& message) {
  if (given_up_) {
    message->state = State::kFailed;
    message->problem = *given_up_;
    return;
  }
  message->ready.record(c10::cuda::getCurrentCUDAStream(stream_.device_index()));
  if (!message->outgoing) {
    receives_.push_back(message);
  } else if (is_to_itself()) {
    sends_.push_back(message);
  } else {
    issue_send(message);
  }
}

void NcclLink::advance() {
  while (!given_up_ && !receives_.empty() && receives_.front()->announcement->done()) {
    const NcclMessagePtr message = receives_.front();
    try {
      message->announcement->wait("the announcement of a message");
    } catch (const std::exception& error) {
      return give_up(error.what());
    }
    if (message->announced != message->size) {
      return give_up(sizes_differ_at_receiver(peer(), static_cast<std::size_t>(message->announced),
                                              message->size));
    }
    receives_.pop_front();
    issue_receive(message);
  }
}

void NcclLink::issue_send(const NcclMessagePtr& message) {
  const c10::cuda::CUDAGuard on_device(stream_.device_index());
  message->ready.block(stream_);
  try {
    communicator_.send(message->data, message->size, kReceiver, stream_);
  } catch (const CommError& error) {
    message->state = State::kFailed;
    message->problem = error.what();
    return give_up(error.what());
  }
  issued(message);
}

void NcclLink::issue_receive(const NcclMessagePtr& message) {
  const c10::cuda::CUDAGuard on_device(stream_.device_index());
  message->ready.block(stream_);
  try {
    if (is_to_itself()) {
      const NcclMessagePtr sent = sends_.front();  // it was announced, so it is queued
      sends_.pop_front();
      sent->ready.block(stream_);
      communicator_.pass_to_itself(sent->data, message->data, message->size, stream_);
      issued(sent);
    } else {
      communicator_.receive(message->data, message->size, kSender, stream_);
    }
  } catch (const CommError& error) {
    message->state = State::kFailed;
    message->problem = error.what();
    return give_up(error.what());
  }
  issued(message);
}

void NcclLink::issued(const NcclMessagePtr& message) {
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
  for (auto* queue : {&sends_, &receives_, &issued_}) {
    for (const NcclMessagePtr& message : *queue) {
      message->state = State::kFailed;
      message->problem = problem;
    }
    queue->clear();
  }
}

}  // namespace trireme::comm
