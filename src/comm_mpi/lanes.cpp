// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include "trireme/comm/waits.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme::comm {
namespace {

using State = Message::State;
using Kind = ControlMessage::Kind;

constexpr int kTag = 0;
constexpr std::chrono::seconds kWithdrawalPatience{1};

bool is_small(const Message& message) {
  return message.size <= kSmallMessage;
}

}  // namespace

Lanes::Lanes(const Communicators& world, Requests& requests, std::size_t piece, Listener listener)
    : world_(world),
      requests_(requests),
      piece_(piece),
      listener_(std::move(listener)),
      send_lanes_(static_cast<std::size_t>(world.size) * kStreams),
      receive_lanes_(send_lanes_.size()) {}

void Lanes::start(const MessagePtr& message) {
  if (!message->outgoing) return start_receive(message);
  SendLane& lane = send_lanes_[lane_number(message->peer, message->stream)];
  if (lane.given_up)
    return listener_.ended(*message, State::kFailed, stream_given_up(message->peer));
  message->sequence = lane.next_sequence++;
  lane.queued.push_back(message);
  ++queued_;
  send_ready_ones(lane);
}

void Lanes::peer_is_ready(int peer, const ControlMessage& ready) {
  SendLane& lane = send_lanes_[lane_number(peer, ready.stream)];
  const std::uint64_t next_to_leave =
      lane.queued.empty() ? lane.next_sequence : lane.queued.front()->sequence;
  // A small message was sent without waiting for its kReady.
  if (lane.given_up || ready.sequence < next_to_leave) return;
  lane.ready.push_back({ready.sequence, ready.bytes});
  send_ready_ones(lane);
}

void Lanes::peer_is_sending(int peer, const ControlMessage& coming) {
  for (const MessagePtr& message : receive_lanes_[lane_number(peer, coming.stream)].active)
    if (message->sequence == coming.sequence) set_moving(*message, true);
}

void Lanes::sizes_differ(int peer, const ControlMessage& mismatch) {
  ReceiveLane& lane = receive_lanes_[lane_number(peer, mismatch.stream)];
  for (const MessagePtr& message : lane.active)
    if (message->sequence == mismatch.sequence && message->part_problem.empty())
      message->part_problem = sizes_differ_at_receiver(peer, mismatch.bytes, message->size);
  give_up_receives(peer, mismatch.stream);
}

void Lanes::withdraw(const MessagePtr& message) {
  if (message->state != State::kUnderWay) return;
  message->withdrawn = true;
  withdrawn_.push_back({message, std::chrono::steady_clock::now()});
  if (message->outgoing) {
    give_up_sends(message->peer, message->stream);
  } else {
    give_up_receives(message->peer, message->stream);
    // Bytes that still arrive go into the copy, not into the caller's buffer.
    if (is_small(*message)) listener_.ended(*message, State::kReleased, "");
  }
}

bool Lanes::drain() {
  bool moved = false;
  for (std::size_t number = 0; number < receive_lanes_.size(); ++number) {
    if (!receive_lanes_[number].given_up) continue;
    int found = 0;
    MPI_Message matched = MPI_MESSAGE_NULL;
    MPI_Status status{};
    check(MPI_Improbe(static_cast<int>(number / kStreams), MPI_ANY_TAG,
                      world_.streams[number % kStreams], &found, &matched, &status),
          "MPI_Improbe");
    if (found == 0) continue;
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    const auto scratch = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Imrecv(scratch->data(), bytes, MPI_BYTE, &matched, &request), "MPI_Imrecv");
    requests_.add(request, [scratch](const Completion&) {});
    moved = true;
  }
  return moved;
}

Pace Lanes::pace() const {
  if (moving_ > 0) return Pace::kMoving;
  const bool open =
      queued_ > 0 || std::any_of(receive_lanes_.begin(), receive_lanes_.end(),
                                 [](const ReceiveLane& lane) { return lane.given_up; });
  return open || requests_.under_way() > 1 ? Pace::kOpen : Pace::kIdle;
}

bool Lanes::is_overdue() const {
  const auto now = std::chrono::steady_clock::now();
  return std::any_of(withdrawn_.begin(), withdrawn_.end(), [&](const Withdrawn& one) {
    return one.message->state == State::kUnderWay && now - one.since > kWithdrawalPatience;
  });
}

std::size_t Lanes::lane_number(int peer, Stream stream) const {
  return static_cast<std::size_t>(peer) * kStreams + static_cast<std::size_t>(stream);
}

MPI_Comm Lanes::communicator(Stream stream) const {
  return world_.streams[static_cast<std::size_t>(stream)];
}

void Lanes::start_receive(const MessagePtr& message) {
  ReceiveLane& lane = receive_lanes_[lane_number(message->peer, message->stream)];
  if (lane.given_up)
    return listener_.ended(*message, State::kFailed, stream_given_up(message->peer));
  message->sequence = lane.next_sequence++;
  lane.active.push_back(message);
  hand_to_mpi(message);
  listener_.tell(message->peer, {Kind::kReady, message->stream, message->sequence, message->size});
}

void Lanes::send_ready_ones(SendLane& lane) {
  while (!lane.queued.empty()) {
    const MessagePtr message = lane.queued.front();
    while (!lane.ready.empty() && lane.ready.front().sequence < message->sequence)
      lane.ready.pop_front();
    const bool is_ready = !lane.ready.empty();
    if (!is_ready && !is_small(*message)) return;
    if (is_ready && lane.ready.front().bytes != message->size) {
      listener_.tell(message->peer,
                     {Kind::kMismatch, message->stream, message->sequence, message->size});
      message->part_problem =
          sizes_differ_at_sender(message->peer, message->size, lane.ready.front().bytes);
      return give_up_sends(message->peer, message->stream);
    }
    lane.queued.pop_front();
    --queued_;
    hand_to_mpi(message);
    if (is_small(*message)) continue;
    listener_.tell(message->peer, {Kind::kComing, message->stream, message->sequence});
    set_moving(*message, true);
  }
}

void Lanes::hand_to_mpi(const MessagePtr& message) {
  const bool small = is_small(*message);
  std::byte* const data = small ? message->copy.data() : message->data;
  // The copy of a small receive fits every small message, so that MPI truncates none.
  const std::size_t size = small ? message->copy.size() : message->size;
  const std::size_t piece = small ? kSmallMessage : piece_;
  std::size_t begin = 0;
  do {
    const auto count = static_cast<int>(std::min(piece, size - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    if (message->outgoing) {
      check(MPI_Isend(data + begin, count, MPI_BYTE, message->peer, kTag,
                      communicator(message->stream), &request),
            "MPI_Isend");
    } else {
      check(MPI_Irecv(data + begin, count, MPI_BYTE, message->peer, kTag,
                      communicator(message->stream), &request),
            "MPI_Irecv");
    }
    ++message->parts_left;
    const auto expected = static_cast<std::size_t>(count);
    message->parts.push_back(
        requests_.add(request, [this, message, expected](const Completion& completion) {
          part_ended(message, completion, expected);
        }));
    begin += expected;
  } while (begin < size);
}

void Lanes::set_moving(Message& message, bool moving) {
  if (message.moving == moving) return;
  message.moving = moving;
  moving ? ++moving_ : --moving_;
}

void Lanes::part_ended(const MessagePtr& message, const Completion& completion,
                       std::size_t expected) {
  --message->parts_left;
  message->received += completion.bytes;
  if (message->part_problem.empty()) message->part_problem = completion.problem;
  if (message->outgoing) {
    if (message->parts_left == 0) conclude_send(message);
    return;
  }
  // A message shorter than expected leaves requests, which must not receive the next
  // message's bytes. Parts may end in any order: a small last one often overtakes the others.
  const bool is_short = message->parts_left > 0 && completion.bytes < expected;
  if (is_short && !completion.cancelled && message->part_problem.empty()) {
    message->part_problem =
        sizes_differ_at_receiver(message->peer, message->received, message->size);
    give_up_receives(message->peer, message->stream);
  }
  if (message->parts_left == 0) conclude_receive(message);
}

void Lanes::conclude_send(const MessagePtr& message) {
  set_moving(*message, false);
  const bool well = message->part_problem.empty();
  listener_.ended(*message, well ? State::kDone : State::kFailed, message->part_problem);
}

void Lanes::conclude_receive(const MessagePtr& message) {
  set_moving(*message, false);
  std::erase(receive_lanes_[lane_number(message->peer, message->stream)].active, message);
  if (message->withdrawn) return listener_.ended(*message, State::kReleased, "");
  if (message->part_problem.empty() && message->received != message->size) {
    message->part_problem =
        sizes_differ_at_receiver(message->peer, message->received, message->size);
    give_up_receives(message->peer, message->stream);
  }
  if (!message->part_problem.empty())
    return listener_.ended(*message, State::kFailed, message->part_problem);
  if (is_small(*message) && message->size > 0)
    std::memcpy(message->data, message->copy.data(), message->size);
  listener_.ended(*message, State::kDone, "");
}

void Lanes::give_up_sends(int peer, Stream stream) {
  SendLane& lane = send_lanes_[lane_number(peer, stream)];
  lane.given_up = true;
  listener_.given_up(peer, stream, true);
  for (const MessagePtr& message : std::exchange(lane.queued, {})) {
    --queued_;
    if (message->part_problem.empty()) message->part_problem = stream_given_up(peer);
    listener_.ended(*message, message->withdrawn ? State::kReleased : State::kFailed,
                    message->part_problem);
  }
}

void Lanes::give_up_receives(int peer, Stream stream) {
  ReceiveLane& lane = receive_lanes_[lane_number(peer, stream)];
  lane.given_up = true;
  listener_.given_up(peer, stream, false);
  for (const MessagePtr& message : lane.active) {
    if (message->part_problem.empty()) message->part_problem = stream_given_up(peer);
    for (const std::uint64_t part : message->parts) requests_.cancel(part);
  }
}

}  // namespace trireme::comm
